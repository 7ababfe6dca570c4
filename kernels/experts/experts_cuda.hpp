#pragma once
// Mixture of experts on the GPU: which experts a row goes to, which rows an expert gets, and the sum of what they say.
// Numerics section 6. All pointers are the device's. Between routing and sum: grouped_matmul (matmul_cuda.hpp).

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

/// slot = row * per_row + rank. `chosen` and `weights` are (rows, per_row).
struct RoutingArgs {
  std::size_t rows = 0, experts = 0, per_row = 0;  ///< 1 <= per_row <= experts
  bool renormalize = true;        ///< softmax over the chosen, else entries of the softmax over all
  const float* logits = nullptr;  ///< (rows, experts)
  std::int32_t* chosen = nullptr;  ///< in rank order; all -1 in a row whose logits are not finite
  float* weights = nullptr;        ///< undefined in such a row
  bool* range = nullptr;           ///< (rows), set for such a row; else left as it is
};
void route(const RoutingArgs& args, cudaStream_t stream);

/// For each expert its slots in rising order: expert e has slots[first[e]] to slots[first[e + 1]]. first: (experts + 1);
/// slots: (rows * per_row), of which those behind first[experts] are left as they are.
void group_by_expert(const std::int32_t* chosen, std::size_t slot_count, std::size_t experts,
                     std::uint32_t* first, std::uint32_t* slots, cudaStream_t stream);

/// out[r] = sum over ranks of weights * branches, from +0 by fma in rising rank; +0 where nothing is chosen.
struct MixArgs {
  std::size_t rows = 0, per_row = 0, cols = 0;
  const std::int32_t* chosen = nullptr;
  const float* weights = nullptr;
  const float* branches = nullptr;  ///< (rows * per_row, cols)
  float* out = nullptr;             ///< (rows, cols)
};
void mix(const MixArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
