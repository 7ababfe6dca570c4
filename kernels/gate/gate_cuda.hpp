#pragma once
// Gated activations on the GPU: the bits of gate.hpp. All pointers are the device's.

#include <cuda_runtime.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

struct GateArgs {
  std::size_t rows = 0, cols = 0;
  const float* gate = nullptr;  ///< (rows, cols), rows in_stride floats apart
  const float* up = nullptr;    ///< likewise
  std::size_t in_stride = 0;
  float* out =
      nullptr;  ///< (rows, cols), rows out_stride apart; may be gate or up with their stride
  std::size_t out_stride = 0;
};
void swiglu(const GateArgs& args, cudaStream_t stream);
void geglu(const GateArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
