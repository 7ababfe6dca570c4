#pragma once
// tokenizer.json's normalizers: what is done to the text before it is split.

#include "schema/canonical_json.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace verbatim::local_engine {

/// Immutable; may be used from any thread. Linear time in the text.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` and the result are generalized UTF-8 (utf8.hpp).
  [[nodiscard]] virtual std::string apply(std::string text) const = 0;
};

/// Reads the "normalizer" member. Null for JSON null. Supported: Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD,
/// Strip, StripAccents, Lowercase, ByteLevel. Throws Fault: `unsupported` with the name of any other type.
[[nodiscard]] std::unique_ptr<const Normalizer> read_normalizer(const Json* json);

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// Unicode normalization (UAX 15, the tables of utf8proc). Linear also when thousands of combining marks come in
/// the worst order.
[[nodiscard]] std::string normalize_unicode(std::string text, UnicodeForm form);

}  // namespace verbatim::local_engine
