#pragma once
// The matrix product on vectors: lanes run over the outputs of a panel, so that no chain of additions is ever split.
// V is avx2::V or avx512::V.

#include "kernels/block.hpp"
#include "kernels/matmul/detail.hpp"

#include <cstddef>

namespace verbatim::kernels::detail {

/// A register tile: `rows` rows of x times `panels` panels of weights, over the k of one block.
template <class V, Dtype dtype, std::size_t rows, std::size_t panels>
struct Tile {
  static constexpr std::size_t kPanel = kPanelRows;
  static constexpr std::size_t kVectors = kPanel / V::kLanes;  // of a panel
  static constexpr std::size_t kAll = kVectors * panels;
  static constexpr std::size_t kSize = dtype == Dtype::f32 ? 4 : 2;

  /// x: (depth, rows), so that one k lies together; w: the panels' first weights of this block; y: the totals, `lanes`
  /// outputs wide. `first`: the totals are +0 instead of what y holds.
  [[gnu::always_inline]] static inline void run(const float* x, std::size_t depth,
                                                const std::byte* w, std::size_t panel_bytes,
                                                float* y, std::size_t y_stride, std::size_t lanes,
                                                bool first) {
    typename V::F s[rows][kAll];
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t v = 0; v < kAll; ++v) s[r][v] = V::zero();
    }
    for (std::size_t k = 0; k < depth; ++k) {
      typename V::F weight[kAll];
      for (std::size_t v = 0; v < kAll; ++v) {
        weight[v] = V::template weights<dtype>(w + (v / kVectors) * panel_bytes +
                                               (v % kVectors) * V::kLanes * kSize);
      }
      w += kPanel * kSize;
      for (std::size_t r = 0; r < rows; ++r) {
        const typename V::F value = V::set1(x[r]);
        for (std::size_t v = 0; v < kAll; ++v) s[r][v] = V::fma(value, weight[v], s[r][v]);
      }
      x += rows;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t v = 0; v < kAll; ++v) {
        float* out = y + r * y_stride + v * V::kLanes;
        if ((v + 1) * V::kLanes <= lanes) {
          V::store(out, V::add(first ? V::zero() : V::load(out), s[r][v]));
        } else if (v * V::kLanes < lanes) {
          const std::size_t n = lanes - v * V::kLanes;
          V::store_first(out, n, V::add(first ? V::zero() : V::load_first(out, n), s[r][v]));
        }
      }
    }
  }
};

/// How many panels a tile of `rows` rows takes: as many accumulators as the registers hold, and enough of them
/// (8 and more) to hide the latency of a fused multiply-add.
template <class V>
constexpr std::size_t panels_of(std::size_t rows) {
  if (V::kRegisters == 32) return rows <= 2 ? 8 : rows <= 6 ? 4 : 2;
  return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
}
template <class V>
constexpr std::size_t kTileRows = V::kRegisters == 32 ? 12 : 6;

template <class V, Dtype dtype>
struct BlockedMatmul {
  static constexpr std::size_t kPanel = kPanelRows;
  static constexpr std::size_t kSize = dtype == Dtype::f32 ? 4 : 2;
  static constexpr std::size_t kRows = kTileRows<V>;
  static constexpr std::size_t kChunk =
      kRows * 20;  // rows of x whose K block stays in the second-level cache

  const PanelRange& range;

  /// All panels [begin, end), in steps of `panels`, then what is left in smaller steps.
  template <std::size_t rows, std::size_t panels>
  [[gnu::noinline]] void panel_steps(const float* x, float* y, std::size_t block, std::size_t depth,
                                     std::size_t begin) const {
    const std::size_t panel_bytes = range.cols * kPanel * kSize;
    const auto* w = static_cast<const std::byte*>(range.weights) + block * kPanel * kSize;
    std::size_t p = begin;
    for (; p + panels <= range.end; p += panels) {
      const std::size_t left = range.rows - p * kPanel;
      Tile<V, dtype, rows, panels>::run(
          x, depth, w + p * panel_bytes, panel_bytes, y + p * kPanel, range.y_stride,
          left < panels * kPanel ? left : panels * kPanel, block == 0);
    }
    if constexpr (panels > 1) {
      if (p < range.end) panel_steps<rows, panels / 2>(x, y, block, depth, p);
    }
  }

  /// `count` <= kRows rows, chosen at run time.
  template <std::size_t rows = kRows>
  void tile_row(std::size_t count, const float* x, float* y, std::size_t block,
                std::size_t depth) const {
    if (count == rows)
      return panel_steps<rows, panels_of<V>(rows)>(x, y, block, depth, range.begin);
    if constexpr (rows > 1) tile_row<rows - 1>(count, x, y, block, depth);
  }

  /// Few rows: the weights are read once, in long runs.
  void few_rows() const {
    float packed[kRows * kBlock];
    for (std::size_t block = 0; block < range.cols; block += kBlock) {
      const std::size_t depth = range.cols - block < kBlock ? range.cols - block : kBlock;
      interleave(range.x + block, range.m, depth, packed);
      tile_row(range.m, packed, range.y, block, depth);
    }
  }

  /// (rows, depth) of x to (depth, rows).
  void interleave(const float* x, std::size_t rows, std::size_t depth, float* out) const {
    for (std::size_t r = 0; r < rows; ++r) {
      const float* source = x + r * range.x_stride;
      for (std::size_t k = 0; k < depth; ++k) out[k * rows + r] = source[k];
    }
  }

  /// Many rows: for each K block, each group of panels meets all tiles of rows while it is in the first-level cache.
  void many_rows(const float* x, float* y, std::size_t m, float* packed) const {
    constexpr std::size_t kGroup = panels_of<V>(kRows);
    for (std::size_t block = 0; block < range.cols; block += kBlock) {
      const std::size_t depth = range.cols - block < kBlock ? range.cols - block : kBlock;
      for (std::size_t r = 0; r < m; r += kRows) {
        const std::size_t rows = m - r < kRows ? m - r : kRows;
        interleave(x + r * range.x_stride + block, rows, depth, packed + r * kBlock);
      }
      for (std::size_t p = range.begin; p < range.end; p += kGroup) {
        PanelRange group = range;
        group.begin = p;
        group.end = range.end - p < kGroup ? range.end : p + kGroup;
        const BlockedMatmul part{group};
        for (std::size_t r = 0; r < m; r += kRows) {
          const std::size_t rows = m - r < kRows ? m - r : kRows;
          part.tile_row(rows, packed + r * kBlock, y + r * range.y_stride, block, depth);
        }
      }
    }
  }

  void add_bias() const {
    const std::size_t first = range.begin * kPanel;
    const std::size_t last = range.end * kPanel < range.rows ? range.end * kPanel : range.rows;
    for (std::size_t r = 0; r < range.m; ++r) {
      float* y = range.y + r * range.y_stride;
      for (std::size_t n = first; n < last; ++n) y[n] = y[n] + range.bias[n];
    }
  }

  void run() const {
    if (range.cols == 0) {
      clear();
    } else if (range.m <= kRows) {
      few_rows();
    } else {
      float* packed = new float[kChunk * kBlock];
      for (std::size_t r = 0; r < range.m; r += kChunk) {
        const std::size_t rows = range.m - r < kChunk ? range.m - r : kChunk;
        many_rows(range.x + r * range.x_stride, range.y + r * range.y_stride, rows, packed);
      }
      delete[] packed;
    }
    if (range.bias != nullptr) add_bias();
  }

  void clear() const {
    for (std::size_t r = 0; r < range.m; ++r) {
      for (std::size_t n = range.begin * kPanel; n < range.end * kPanel && n < range.rows; ++n) {
        range.y[r * range.y_stride + n] = 0;
      }
    }
  }
};

template <class V>
[[gnu::always_inline]] static inline void matmul_vector(const PanelRange& range) {
  switch (range.dtype) {
    case Dtype::f32:
      return BlockedMatmul<V, Dtype::f32>{range}.run();
    case Dtype::bf16:
      return BlockedMatmul<V, Dtype::bf16>{range}.run();
    case Dtype::f16:
      return BlockedMatmul<V, Dtype::f16>{range}.run();
  }
}

}  // namespace verbatim::kernels::detail
