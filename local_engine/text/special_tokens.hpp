#pragma once
// Special tokens in text, by the rules of GGUF files: the longest token first over the whole text, so not simply
// from left to right.

#include "local_engine/text/gguf_vocabulary.hpp"
#include "local_engine/text/trie.hpp"
#include "local_engine/token.hpp"

#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// A stretch of text, or a token in its place.
struct Fragment {
  TokenId id = -1;
  std::string_view text;
};

/// Immutable after construction; may be used from any thread.
class SpecialTokens {
 public:
  /// `vocabulary` must outlive this.
  explicit SpecialTokens(const GgufVocabulary& vocabulary);

  /// Cuts the text at control, unknown and user-defined tokens; with parse_special off at user-defined tokens
  /// only. Costs one pass over the text for each token that occurs in it.
  [[nodiscard]] std::vector<Fragment> split(std::string_view text, bool parse_special) const;

 private:
  [[nodiscard]] std::vector<TokenId> occurring(std::string_view text, bool parse_special) const;
  void split_at(TokenId id, std::vector<Fragment>& fragments) const;

  const GgufVocabulary& vocabulary_;
  Trie trie_;
};

}  // namespace verbatim::local_engine
