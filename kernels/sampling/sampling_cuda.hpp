#pragma once
// Choosing a token from a row of logits, on the GPU: what sampling.hpp chooses, with the same margin and deficit. All
// pointers are the device's.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

struct TokenBias {
  std::int32_t id;
  float bias;
};
struct TokenCount {
  std::int32_t id;
  std::uint32_t in_prompt, in_output;
};

/// As SamplerParams, the f64 that meet a logit rounded to f32.
struct SamplerRow {
  const TokenBias* bias = nullptr;  ///< no id twice
  std::size_t bias_count = 0;
  const TokenCount* seen = nullptr;  ///< no id twice
  std::size_t seen_count = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  float temperature = 0;  ///< 0: greedy
  std::uint32_t top_k = 0;
  double min_p = 0, top_p = 1;
  std::uint64_t seed = 0;
  std::uint32_t position = 0, choice = 0;
  std::int32_t given = -1;  ///< the token whose deficit is wanted, or -1
};
struct TokenChoice {
  std::int32_t id, second;  ///< id -1: a value was NaN or infinite
  float margin, deficit;
};

struct SamplerArgs {
  const float* logits =
      nullptr;  ///< (rows, count), rows `stride` floats apart; they stay as they are
  std::size_t rows = 0, count = 0, stride = 0;
  const SamplerRow* params = nullptr;  ///< (rows)
  float* scratch = nullptr;            ///< (rows, 2, count)
  TokenChoice* choices = nullptr;      ///< (rows)
};
/// top_p below 1 adds up to `count` f64 in one chain, in the order of the CPU: slower than all the rest.
void choose_tokens(const SamplerArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
