#pragma once
// What is said of rows of logits, on the GPU: the bits of logits.hpp. All pointers are the device's. Digests are made here
// too: a row has some hundred blocks of 1,024 logits to hash side by side, and need not leave the GPU for it.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

struct LogitRows {
  const float* logits = nullptr;                ///< (rows, count), rows `stride` floats apart
  std::size_t rows = 0, count = 0, stride = 0;  ///< rows at most 65,535; count at least 1
};

/// all_finite(), top2() and log_sum_exp() of a row. Without `finite` the others say nothing.
struct LogitStats {
  std::int32_t finite;
  std::int32_t best, second;  ///< second: -1 when there is only one
  float best_value, second_value;
  float max, sum;
};
/// scratch: logit_scratch_bytes(), 16-byte aligned.
void logit_stats(const LogitRows& rows, void* scratch, LogitStats* stats, cudaStream_t stream);
[[nodiscard]] std::size_t logit_scratch_bytes(const LogitRows& rows);

/// out[r] = (x - m) - log(l) of the row's logit of ids[r].
void logprobs(const LogitRows& rows, const LogitStats* stats, const std::int32_t* ids, float* out,
              cudaStream_t stream);
/// The ids of the `top` highest finite values of each row in order: (rows, top). top <= count.
void top_ids(const LogitRows& rows, std::size_t top, std::int32_t* ids, cudaStream_t stream);

/// row_digest() of each row: (rows, 32). scratch: digest_scratch_words().
void row_digests(const LogitRows& rows, std::uint32_t* scratch, std::uint8_t* digests,
                 cudaStream_t stream);
[[nodiscard]] std::size_t digest_scratch_words(const LogitRows& rows);

}  // namespace verbatim::kernels::cuda
