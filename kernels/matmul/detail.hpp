#pragma once
// What matmul.cpp hands to one backend: some panels of the weights, all rows of x.

#include "kernels/dtype.hpp"

#include <cstddef>

namespace verbatim::kernels::detail {

struct PanelRange {
  const void* weights;               // packed, from panel 0; unused when quantised
  const std::byte* const* row_data;  // quantised: 16 rows a panel, from panel 0; else null
  Dtype dtype;
  std::size_t rows, cols;  // N, K
  std::size_t begin, end;  // panels
  const float* x;
  std::size_t m, x_stride;
  const float* bias;  // (rows) or null
  float* y;
  std::size_t y_stride;
};

void matmul_scalar(const PanelRange& range);
/// What matmul_scalar is on a processor without FMA; tests run it everywhere.
void matmul_portable(const PanelRange& range);
void matmul_avx2(const PanelRange& range);
void matmul_avx512(const PanelRange& range);

}  // namespace verbatim::kernels::detail
