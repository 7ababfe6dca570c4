#pragma once
// Matrix products and rows of the embedding on the GPU: the bits of matmul.hpp. All pointers are the device's.

#include "kernels/dtype.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

/// Weights as PackedWeights holds them: panels of 16 rows, interleaved by k. 16-byte aligned.
struct Weights {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0, cols = 0;  ///< N, K
};

/// As MatmulArgs. x that is 16-byte aligned, with a stride divisible by 4, is read faster; the bits are the same.
struct MatmulArgs {
  const float* x = nullptr;  ///< (m, cols), rows x_stride floats apart
  std::size_t m = 0, x_stride = 0;
  const float* bias = nullptr;  ///< (rows) or null
  float* y = nullptr;           ///< (m, rows), rows y_stride floats apart; does not overlap x
  std::size_t y_stride = 0;
};
/// Errors of a launch are left for cudaGetLastError, here and in every operator.
void matmul(const Weights& weights, const MatmulArgs& args, cudaStream_t stream);

/// One product for each expert, of the rows that chose it: for each slot s of expert e,
/// y[s] = x[s / slots_per_x_row] * weights[e] (+ bias[e]). The bits are those of a product of that row alone.
struct GroupedMatmulArgs {
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0, cols = 0;        ///< N, K of each expert
  std::size_t experts = 0;               ///< at most 65,535
  const void* const* weights = nullptr;  ///< (experts), packed
  const float* const* biases = nullptr;  ///< (experts), or null
  const std::uint32_t* first =
      nullptr;  ///< (experts + 1): expert e has slots[first[e]] to slots[first[e + 1]]
  const std::uint32_t* slots = nullptr;  ///< (first[experts])
  std::size_t slots_of_one_max = 0;      ///< no expert has more
  std::size_t slots_per_x_row = 1;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;
};
void grouped_matmul(const GroupedMatmulArgs& args, cudaStream_t stream);

/// out[r] = row ids[r] of the weights, exactly, times `scale` (1: as stored). out: (count, cols), dense.
void gather_rows(const Weights& weights, const std::int32_t* ids, std::size_t count, float scale,
                 float* out, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
