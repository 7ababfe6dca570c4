#pragma once
// Views of bytes, and their text forms.

#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim {

using Bytes = std::span<const std::uint8_t>;  ///< Borrowed. Valid as long as its owner.
using ByteVector = std::vector<std::uint8_t>;

/// The bytes of a text, borrowed from it.
[[nodiscard]] inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The text with these bytes, borrowed from them. It may hold any byte.
[[nodiscard]] inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes one line off the front of `text`, and returns it without its newline; none where no newline is left.
[[nodiscard]] inline std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

/// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(Bytes bytes);

/// Accepts both cases. `invalid_input` on an odd length or another character.
[[nodiscard]] Result<ByteVector> from_hex(std::string_view text);

/// RFC 4648 section 4: standard alphabet, padded.
[[nodiscard]] std::string to_base64(Bytes bytes);

/// Strict: padding required, no white space, unused bits zero. `invalid_input` otherwise.
[[nodiscard]] Result<ByteVector> from_base64(std::string_view text);

/// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace verbatim
