#pragma once
// RMS normalization of rows:  y[r][c] = (x[r][c] * (1 / sqrt(ss_r / cols + eps))) * w[c]

#include "kernels/backend.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>

namespace verbatim::kernels {

/// Numerics: section 4 of profile f32-k256/1.
///
///   shapes    x, y: (rows, cols), rows x_stride and y_stride floats apart, may be one buffer; w: (cols)
///   order     ss = dot(x, x) in blocks of 256 (matmul.hpp); r = 1 / sqrt((ss / f32(cols)) + eps);
///             y = (x * r) * w; every step rounded once
///   gemma     gemma_unit_offset: w := 1 + w, rounded once, before the product
///   promise   a row of y depends on that row of x, on w and on eps alone
struct RmsnormArgs {
  std::size_t rows = 0;
  std::size_t cols = 0;  ///< at least 1
  float eps = 0;
  bool gemma_unit_offset = false;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  float* y = nullptr;
  std::size_t y_stride = 0;
};
void rmsnorm(Backend backend, const RmsnormArgs& args, ThreadPool* pool = nullptr);

}  // namespace verbatim::kernels
