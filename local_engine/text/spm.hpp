#pragma once
// SentencePiece BPE as GGUF files of the "llama" kind hold it: no merge rules, but a score for each token.

#include "local_engine/text/vocabulary.hpp"
#include "local_engine/token.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// Of all adjacent pairs that together are a token, the one with the highest score is merged, the leftmost first, until
/// none is left; what is no token then becomes its bytes. Immutable after construction; n log n in the text.
class Spm {
 public:
  /// `scores` by id. `vocabulary` must outlive this.
  Spm(const Vocabulary& vocabulary, std::vector<float> scores);

  /// Appends the ids of a text, which may hold any bytes. Throws Fault (`invalid_input`) for a byte that no token
  /// stands for.
  void encode(std::string_view text, std::vector<TokenId>& out) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<float> scores_;
  std::array<TokenId, 256> byte_ids_{};
  std::size_t token_bytes_max_ = 0;
};

}  // namespace verbatim::local_engine
