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
  const float* tiles;  // x as tile_offset() says; null for the scalar form, which reads x
  std::size_t m, x_stride;
  const float* bias;  // (rows) or null
  float* y;
  std::size_t y_stride;
};

/// Rows of x that are multiplied together: as many as leave registers for the weights.
constexpr std::size_t kTileRowsAvx512 = 12, kTileRowsAvx2 = 6;

/// Where the rows of x lie that a product with `m` rows reads: for each block of 256 k the tiles one after another, of
/// each tile its k, of each k the tile's rows. A tile's part of a block is what fits the nearest cache.
inline std::size_t tile_offset(std::size_t m, std::size_t block, std::size_t depth,
                               std::size_t first_row) {
  return m * block + first_row * depth;
}

void matmul_scalar(const PanelRange& range);
/// What matmul_scalar is on a processor without FMA; tests run it everywhere.
void matmul_portable(const PanelRange& range);
void matmul_avx2(const PanelRange& range);
void matmul_avx512(const PanelRange& range);

}  // namespace verbatim::kernels::detail
