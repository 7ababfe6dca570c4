#pragma once
// Secrets that can be told by their form: card numbers, e-mail addresses, API keys.

#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

enum class SecretKind { card_number, email, api_key };
using SecretKinds = std::bitset<3>;

/// "card_number", "email", "api_key": names in the configuration.
[[nodiscard]] std::string_view secret_kind_name(SecretKind kind);
[[nodiscard]] std::optional<SecretKind> secret_kind_named(std::string_view name);

/// Bytes [begin, end) of a text.
struct SecretSpan {
  std::size_t begin = 0, end = 0;
  SecretKind kind = SecretKind::card_number;
};

/// All secrets of these kinds, by kind and then by place. Those of different kinds may overlap. O(text.size()).
///
/// - card_number: 13 to 19 digits that begin with 2 to 6 and satisfy the Luhn check (ISO/IEC 7812-1), in groups with one
///   blank or dash between them. ASCII and full-width digits; the blanks and dashes of General Punctuation and U+00A0.
///   A run of digits is never taken apart: what stands within a longer one is no card number.
/// - email: local part, '@', and a domain of at least two labels; letters beyond ASCII count as letters, '_' as well.
/// - api_key: what begins as the keys of known providers do (sk-, AKIA, ghp_, AIza, vb-, ...) and is long enough, JSON
///   Web Tokens, signed or encrypted, and private keys in PEM.
[[nodiscard]] std::vector<SecretSpan> find_secrets(std::string_view text, SecretKinds kinds);

}  // namespace verbatim::gateway
