#pragma once
// The unigram language model: of all ways to cut a piece into tokens, the one whose scores sum highest (Kudo
// 2018, section 3.2), with the tie and unknown rules of Hugging Face's tokenizers.

#include "local_engine/text/trie.hpp"
#include "local_engine/text/vocabulary.hpp"
#include "local_engine/token.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// Immutable after construction; may be used from any thread. Linear in the piece's length times the longest token.
class Unigram {
 public:
  /// `scores` by id. `vocabulary` must outlive this.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, std::optional<TokenId> unk,
          bool byte_fallback);

  /// Appends the ids of one piece of generalized UTF-8 (utf8.hpp). Throws Fault (`invalid_input`) where an
  /// unknown character comes up and there is no unk, or for an invalid byte without a token.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  std::optional<TokenId> unk_;
  bool byte_fallback_;
  double unk_score_ = 0;
  Trie trie_;
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace verbatim::local_engine
