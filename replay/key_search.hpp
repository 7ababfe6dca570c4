#pragma once
// Whether an API key stands in what an endpoint said: as it is, or in a form that whoever sees it can read it from.

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

/// Finds the key itself; the key with any of its characters as JSON escapes (`\/`, `\u0073`), percent-encoded, or as HTML
/// entities, also one within the other, and with white space between them; its bytes in hexadecimal; and in base64 of
/// either alphabet, alone or with anything before and behind it, as in `base64("Bearer " + key)`.
class KeySearch {
 public:
  /// A key of "" is found nowhere.
  explicit KeySearch(std::string_view key);

  /// O(text.size()).
  [[nodiscard]] bool finds(std::string_view text) const;

 private:
  std::string key_;
  std::vector<std::string> plain_;  ///< looked for in plain_form()
  std::string hex_;                 ///< in lower case; "" of a key that is too short
};

/// The text with its escapes undone, however deep, and without white space and backslashes. Different texts may have the
/// same.
[[nodiscard]] std::string plain_form(std::string_view text);

}  // namespace verbatim::replay
