#pragma once
// The rotation by position on the GPU: the bits of rope.hpp. All pointers are the device's; the table is the host's, copied.

#include <cuda_runtime.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

/// As RopeArgs, with the table's rows.
struct RopeArgs {
  std::size_t rows = 0, heads = 0, head_dim = 0;
  std::size_t pairs = 0;  ///< of the table; 2 * pairs <= head_dim
  bool interleaved = false;
  const std::size_t* positions = nullptr;  ///< (rows), below the table's
  const float* cos = nullptr;              ///< (positions, pairs)
  const float* sin = nullptr;
  float* x = nullptr;  ///< (rows, heads, head_dim), rows x_stride floats apart
  std::size_t x_stride = 0;
};
void rope_rotate(const RopeArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
