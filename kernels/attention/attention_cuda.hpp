#pragma once
// Attention over the paged cache on the GPU: the bits of attention.hpp, with the same pages. All pointers are the device's.

#include "kernels/attention/shape.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace verbatim::kernels::cuda {

/// As the CPU's, with device pointers.
struct AttentionRow {
  const float* q = nullptr;  ///< (heads, head_dim), rotated
  float* out = nullptr;      ///< (heads, head_dim)
  std::size_t position = 0;
  const KvPage* pages = nullptr;  ///< position / 256 + 1; an array of the device
};

/// Queries that read the same pages: numbers first_query to first_query + count of the (row, head of the group) pairs from
/// first_row on.
struct AttentionTile {
  std::uint32_t first_row = 0, first_query = 0, count = 0;
};
/// Tiles for rows of which neighbours with the same `pages` belong to one sequence: on the host, once for all layers.
[[nodiscard]] std::vector<AttentionTile> attention_tiles(const AttentionShape& shape,
                                                         std::span<const AttentionRow> rows);

struct AttentionArgs {
  AttentionShape shape;
  std::size_t row_count = 0;
  const AttentionRow* rows = nullptr;
  std::size_t tile_count = 0;
  const AttentionTile* tiles = nullptr;
  std::size_t pages_max = 0;  ///< the largest position / 256 + 1
  /// attention_scratch_floats() of them, or null: then one block of threads goes over all pages of a tile. With it each page
  /// has its own, which is what a few long sequences need. head_dim above 256 needs it. The bits are the same.
  float* scratch = nullptr;
  bool* range = nullptr;  ///< (row_count), set when a maximum was infinite; else left as it is
};
/// Maximum, sum and weighted values of each query and page.
[[nodiscard]] constexpr std::size_t attention_scratch_floats(const AttentionArgs& a) {
  return a.row_count * a.shape.heads * a.pages_max * (2 + a.shape.head_dim);
}
void attention(const AttentionArgs& args, cudaStream_t stream);

/// Writes row r's key and value at its position. k, v: (rows, kv_heads, head_dim), rows `stride` floats apart, k rotated.
void kv_store(const AttentionShape& shape, const AttentionRow* rows, std::size_t row_count,
              const float* k, const float* v, std::size_t stride, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
