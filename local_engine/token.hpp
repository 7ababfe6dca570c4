#pragma once
// Token ids, and what the engine says of each token it emits or scores.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

using TokenId = std::int32_t;

/// One position of an output. Logit units are f32, raw model output.
struct TokenInfo {
  TokenId id = 0;
  /// The bytes this token adds to the text; a split character comes with its last token.
  std::string text;
  float logprob = 0;  ///< of `id`, under the raw logits (numerics.md section 7)
  /// Best minus runner-up, in logit units (scores times T when sampling); +infinity when a filter
  /// left one token.
  float margin = 0;
  /// Best minus this token; 0 when it is the engine's choice, +infinity when a filter removed it.
  float deficit = 0;
  bool chosen = true;                          ///< the engine itself would have chosen it
  TokenId best = 0;                            ///< what the engine would have chosen
  std::vector<std::pair<TokenId, float>> top;  ///< the highest log-probabilities, if asked for
  std::array<std::uint8_t, 8> row_digest8{};   ///< first bytes of the row digest of the logits
};

}  // namespace verbatim::local_engine
