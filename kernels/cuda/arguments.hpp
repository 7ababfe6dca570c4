#pragma once
// Arguments of the GPU operators: plain structures of device pointers, so that the text of the operators compiles without
// CUDA too.

#include "kernels/dtype.hpp"

#include <cstddef>

namespace verbatim::kernels::cuda {

struct MatmulArgs {
  const void* weights = nullptr;  ///< packed as by PackedWeights
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0, cols = 0;  ///< N, K
  const float* x = nullptr;        ///< (m, cols)
  std::size_t m = 0, x_stride = 0;
  const float* bias = nullptr;  ///< (rows) or null
  float* y = nullptr;           ///< (m, rows)
  std::size_t y_stride = 0;
};

struct RmsnormArgs {
  std::size_t rows = 0, cols = 0;
  float eps = 0;
  bool gemma_unit_offset = false;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  float* y = nullptr;  ///< may be x only if the strides are equal
  std::size_t y_stride = 0;
  float* scratch = nullptr;  ///< rows * (cols / 256 rounded up, plus 1) floats
};

struct RopeArgs {
  std::size_t rows = 0, heads = 0, head_dim = 0, pairs = 0;
  bool interleaved = false;
  const std::size_t* positions = nullptr;
  const float* cos = nullptr;  ///< (positions, pairs): the host's table
  const float* sin = nullptr;
  float* x = nullptr;
  std::size_t x_stride = 0;
};

struct KvPage {
  const float* k = nullptr;  ///< (kv_heads, head_dim, 256)
  const float* v = nullptr;  ///< (kv_heads, 256, head_dim)
};

struct AttentionRow {
  const float* q = nullptr;  ///< (heads, head_dim)
  float* out = nullptr;      ///< (heads, head_dim)
  std::size_t position = 0;
  const KvPage* pages = nullptr;
};

struct AttentionArgs {
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0, softcap = 0;
  std::size_t window = 0;
  std::size_t row_count = 0;
  const AttentionRow* rows = nullptr;
  std::size_t pages_max = 0;  ///< the largest position / 256 + 1
  float* scratch = nullptr;   ///< attention_scratch_floats()
  bool* range = nullptr;      ///< (row_count), false before the call
};

/// Scores of a page, its maximum and sum, and its weighted values, for each query and page.
[[nodiscard]] constexpr std::size_t attention_scratch_floats(const AttentionArgs& a) {
  return a.row_count * a.heads * a.pages_max * (256 + 2 + a.head_dim);
}

}  // namespace verbatim::kernels::cuda
