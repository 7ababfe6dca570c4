#pragma once
// RMS normalization on the GPU: the bits of rmsnorm.hpp. All pointers are the device's.

#include <cuda_runtime.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

/// As RmsnormArgs, and rows may have several parts, `cols` apart, each normalized by itself (the heads of q and k).
struct RmsnormArgs {
  std::size_t rows = 0;
  std::size_t parts = 1;
  std::size_t cols = 0;
  float eps = 0;
  bool gemma_unit_offset = false;
  const float* x = nullptr;  ///< (rows, parts, cols), rows x_stride floats apart
  std::size_t x_stride = 0;
  const float* w = nullptr;  ///< (cols)
  float* y = nullptr;        ///< may be x, with the same stride
  std::size_t y_stride = 0;
};
void rmsnorm(const RmsnormArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
