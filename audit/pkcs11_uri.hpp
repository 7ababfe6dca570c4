#pragma once
// The name of one key in one token (RFC 7512), as in
//
//   pkcs11:token=audit;object=log-2027?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/verbatim/pin

#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::audit {

struct Pkcs11Uri {
  std::string module_path;  ///< absolute
  // What the token must be; what is absent may be anything.
  std::optional<std::string> token, manufacturer, model, serial;
  std::optional<std::uint64_t> slot_id;
  // What the key must be.
  std::optional<std::string> object;  ///< CKA_LABEL
  std::optional<std::string> id;      ///< CKA_ID: bytes
  // Where its PIN is. None for a token that asks for none.
  std::string pin_file;      ///< absolute
  std::string pin_variable;  ///< of the environment

  /// For errors: "token audit, key log-2027".
  [[nodiscard]] std::string shown() const;
};

inline constexpr std::size_t kPkcs11UriBytesMax = 1024;

/// True for what begins like one.
[[nodiscard]] inline bool is_pkcs11_uri(std::string_view text) {
  return text.starts_with("pkcs11:");
}

/// `invalid_input`: malformed, no absolute module-path, an attribute that is there twice or is not known here. Among these
/// is pin-value: a PIN in a URI would be stored and shown. `pin-source` is a file (`file:/path` or `/path`) or `env:NAME`.
/// No value of an attribute is in the error's text.
[[nodiscard]] Result<Pkcs11Uri> parse_pkcs11_uri(std::string_view text);

}  // namespace verbatim::audit
