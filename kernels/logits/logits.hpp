#pragma once
// What is said of a row of logits: finite or not, best and runner-up, log-probabilities, digest. Numerics section 7.

#include "kernels/backend.hpp"
#include "schema/digest.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace verbatim::kernels {

/// False when any is NaN or infinite: the request ends with `out_of_range`.
[[nodiscard]] bool all_finite(Backend backend, std::span<const float> logits);

struct Top2 {
  std::int32_t best = -1;    ///< the largest, the smallest id on a tie
  std::int32_t second = -1;  ///< the same without `best`; -1 when there is only one
  float best_value = 0;
  float second_value = 0;
  /// best - second, one rounding; +infinity when there is only one.
  [[nodiscard]] float margin() const;
};
/// Of finite values; at least one.
[[nodiscard]] Top2 top2(Backend backend, std::span<const float> values);

/// m = the maximum, l = the sum of exp(x - m) in ascending id in blocks of 256.
struct LogSumExp {
  float max = 0;
  float sum = 0;
  /// (x - m) - log(l).
  [[nodiscard]] float logprob(float x) const;
};
[[nodiscard]] LogSumExp log_sum_exp(Backend backend, std::span<const float> logits);

/// The ids of the `count` highest values, in (value descending, id ascending) order; all if there are fewer.
[[nodiscard]] std::vector<std::int32_t> top_ids(std::span<const float> values, std::size_t count);

/// SHA-256 over the SHA-256s of consecutive blocks of 1,024 logits (f32, little-endian; the last block may be shorter).
/// Of the raw logits: after the final soft-cap and scale, before bias and penalties. The logits_digest of a response is
/// the SHA-256 over its row digests in order.
[[nodiscard]] Digest row_digest(std::span<const float> logits);

}  // namespace verbatim::kernels
