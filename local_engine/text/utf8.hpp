#pragma once
// UTF-8 and the character classes that tokenizers use.
//
// Bytes that are not UTF-8 travel through normalizers and patterns as lone surrogates U+DC80 to U+DCFF,
// three bytes each, as in Python's "surrogateescape"; real text cannot hold those. So `text` below is
// "generalized" UTF-8: well formed but for such surrogates.

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::local_engine {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 1;  ///< bytes, 1 to 4
};

/// The code point at `at`, which must be the start of one. Generalized UTF-8 is a precondition; a
/// sequence cut by the end of the text comes back as U+FFFD of the bytes that are left.
[[nodiscard]] CodePoint code_point_at(std::string_view text, std::size_t at);

/// The code point that ends at `end`, which must be greater than 0.
[[nodiscard]] CodePoint code_point_before(std::string_view text, std::size_t end);

void append_utf8(std::string& out, char32_t value);

/// Bytes of the character that `lead` begins: 1 for ASCII and for anything that begins none.
[[nodiscard]] constexpr std::size_t utf8_size(unsigned char lead) {
  return lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
}

/// Length of the valid UTF-8 prefix of `text`.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

/// Replaces every byte that is not part of well-formed UTF-8 by its surrogate.
[[nodiscard]] std::string escape_invalid_bytes(std::string_view text);
[[nodiscard]] constexpr bool is_escaped_byte(char32_t value) {
  return value >= 0xdc80 && value <= 0xdcff;
}
[[nodiscard]] constexpr unsigned char escaped_byte(char32_t value) {
  return static_cast<unsigned char>(value & 0xff);
}
/// The inverse of escape_invalid_bytes().
[[nodiscard]] std::string restore_invalid_bytes(std::string_view text);

/// Turns bytes that come in pieces into well-formed UTF-8: each maximal part of an ill-formed sequence
/// becomes one U+FFFD (Unicode 15 section 3.9, "substitution of maximal subparts"; what Rust's
/// from_utf8_lossy does). Holds back at most 3 bytes.
class LossyUtf8 {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string held_;  // the beginning of a character, well formed as far as it goes
};

[[nodiscard]] bool is_white_space(char32_t value);     ///< Unicode White_Space
[[nodiscard]] bool is_numeric(char32_t value);         ///< general category N
[[nodiscard]] bool is_punctuation(char32_t value);     ///< general category P, or ASCII punctuation
[[nodiscard]] bool is_word_character(char32_t value);  ///< letters, marks, Nd, Nl, Pc: \w
[[nodiscard]] bool is_nonspacing_mark(char32_t value);  ///< general category Mn

}  // namespace verbatim::local_engine
