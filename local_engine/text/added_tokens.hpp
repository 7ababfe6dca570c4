#pragma once
// tokenizer.json's added tokens: texts that become one token wherever they stand, before (or, if "normalized",
// after) the text is normalized.

#include "local_engine/text/normalizer.hpp"
#include "local_engine/text/trie.hpp"
#include "local_engine/token.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace verbatim::local_engine {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
  bool normalized = true;    ///< is looked for in the normalized text
  bool special = false;
};

/// A stretch of text, or the token that stands in its place (id >= 0).
struct TokenOrText {
  TokenId id = -1;
  std::string_view text;
  bool at_start = false;
};

/// Immutable after construction; may be used from any thread.
class AddedTokens {
 public:
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  /// Cuts `text` at the tokens that are (not) normalized: leftmost, the longest of those that start there.
  /// With parse_special off, special tokens stay text. Appends; empty stretches are left out.
  void split(std::string_view text, bool at_start, bool normalized, bool parse_special,
             std::vector<TokenOrText>& out) const;

  [[nodiscard]] bool is_special(TokenId id) const;
  /// Null if the id is no added token.
  [[nodiscard]] const AddedToken* find(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view content) const;

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, std::size_t> by_id_;
  std::unordered_map<std::string_view, TokenId> by_content_;
  Trie raw_;  // values: indexes into tokens_
  Trie normalized_;
};

}  // namespace verbatim::local_engine
