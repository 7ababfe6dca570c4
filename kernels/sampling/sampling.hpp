#pragma once
// Choosing a token from a row of logits, so that anyone with the logits, the parameters and the seed chooses the same.

#include "kernels/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace verbatim::kernels {

/// How often a token has been seen in a request.
struct TokenCount {
  std::int32_t id = 0;
  std::uint32_t in_prompt = 0;
  std::uint32_t in_output = 0;
};

/// Parameters of one choice, in the order in which they act (numerics section 7). Each f64 is rounded to f32 where it
/// meets a logit.
struct SamplerParams {
  std::span<const std::pair<std::int32_t, double>> bias;  ///< ascending ids: x = x + f32(bias)
  std::span<const TokenCount> seen;                       ///< ascending ids
  double repetition_penalty = 1;  ///< seen in prompt or output: x > 0 ? x / r : x * r
  double frequency_penalty = 0;   ///< x = x - f * f32(in_output)
  double presence_penalty = 0;    ///< seen in the output: x = x - p
  double temperature = 0;         ///< 0: greedy; else x = x / f32(T)
  std::uint32_t top_k = 0;        ///< 0: off
  double min_p = 0;               ///< keep where probability >= min_p * the largest probability
  double top_p = 1;               ///< keep until the f64 sum reaches it, inclusive
  std::uint64_t seed = 0;
  std::uint32_t position = 0;  ///< the index that the new token gets in the sequence
  std::uint32_t choice = 0;
};

struct TokenChoice {
  std::int32_t id = -1;      ///< the largest score, the smallest id on a tie
  std::int32_t second = -1;  ///< the runner-up; -1 when only one token was left
  float margin =
      0;  ///< best - runner-up in logit units: scores times f32(T) when sampling; +infinity when alone
  float deficit = 0;  ///< best - the given token, likewise; +infinity when a filter removed it
};

/// Chooses from `logits` (finite; at least one), which stay as they are. `given`: the token whose deficit is wanted, or -1.
/// `id` is -1 when bias, penalties or temperature made a value NaN or infinite: the request ends with `out_of_range`.
[[nodiscard]] TokenChoice choose_token(Backend backend, std::span<const float> logits,
                                       const SamplerParams& params, std::int32_t given = -1);

}  // namespace verbatim::kernels
