#pragma once
// The matrix product on vectors: lanes run over the outputs of a panel, so that no chain of additions is ever split.
// V is avx2::V or avx512::V.

#include "kernels/block.hpp"
#include "kernels/matmul/detail.hpp"
#include "kernels/quantised/quantised_vector.hpp"

#include <cstddef>

namespace verbatim::kernels::detail {

/// A register tile: `rows` rows of x times `panels` panels of weights, over the k of one block.
template <class V, Dtype dtype, std::size_t rows, std::size_t panels>
struct Tile {
  static constexpr std::size_t kPanel = kPanelRows;
  static constexpr std::size_t kVectors = kPanel / V::kLanes;  // of a panel
  static constexpr std::size_t kAll = kVectors * panels;
  static constexpr std::size_t kSize = block_layout(dtype).bytes;
  using Sums = typename V::F[rows][kAll];

  [[gnu::always_inline]] static inline void clear(Sums& s) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t v = 0; v < kAll; ++v) s[r][v] = V::zero();
    }
  }

  /// x: (depth, rows), so that one k lies together; w: the panels' first weights of this block.
  [[gnu::always_inline]] static inline void accumulate(Sums& s, const float* x, std::size_t depth,
                                                       const std::byte* w,
                                                       std::size_t panel_bytes) {
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
  }

  /// y: the totals, `lanes` outputs wide. `first`: the totals are +0 instead of what y holds.
  [[gnu::always_inline]] static inline void add_to(const Sums& s, float* y, std::size_t y_stride,
                                                   std::size_t lanes, bool first) {
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
constexpr std::size_t kTileRows = V::kRegisters == 32 ? kTileRowsAvx512 : kTileRowsAvx2;

/// Where a tile finds the weights of one block: packed floats.
template <class V, Dtype dtype>
struct PackedSource {
  static constexpr bool kQuantised = false;
  static constexpr std::size_t kSize = block_layout(dtype).bytes;
  const std::byte* weights;  // of panel 0, from this block on
  std::size_t panel_bytes;

  PackedSource(const void* first, std::size_t bytes)
      : weights(static_cast<const std::byte*>(first)), panel_bytes(bytes) {}

  PackedSource(const PanelRange& range, std::size_t block)
      : PackedSource(static_cast<const std::byte*>(range.weights) + block * kPanelRows * kSize,
                     range.cols * kPanelRows * kSize) {}

  template <std::size_t rows, std::size_t panels>
  [[gnu::always_inline]] void tile(const float* x, std::size_t depth, std::size_t panel, float* y,
                                   std::size_t y_stride, std::size_t lanes, bool first) const {
    using T = Tile<V, dtype, rows, panels>;
    typename T::Sums s;
    T::clear(s);
    T::accumulate(s, x, depth, weights + panel * panel_bytes, panel_bytes);
    T::add_to(s, y, y_stride, lanes, first);
  }
};

/// The same for quantised rows: decoded group by group into the first-level cache, and used there.
template <class V>
struct QuantisedSource {
  static constexpr bool kQuantised = true;
  static constexpr std::size_t kGroupFloats = kQuantisedGroup * kPanelRows;
  const std::byte* const* rows_of_panels;
  GroupDecoder<V> decoder;
  std::size_t block;  // first k

  QuantisedSource(const PanelRange& range, std::size_t first_k)
      : rows_of_panels(range.row_data), decoder(GroupDecoder<V>::of(range.dtype)), block(first_k) {}

  /// Group g of this block of k, of one panel: out is (32, 16). Groups come in rising order: `scales` lasts from one to
  /// the next.
  [[gnu::always_inline]] void decode(std::size_t panel, std::size_t g, PanelScales& scales,
                                     float* out) const {
    const std::byte* const* row = rows_of_panels + panel * kPanelRows;
    const std::size_t group = block / kQuantisedGroup + g;
    if (group % decoder.groups == 0) decoder.begin(row, group / decoder.groups, scales);
    decoder.group(row, group / decoder.groups, group % decoder.groups, scales, out);
  }

  template <std::size_t rows, std::size_t panels>
  [[gnu::always_inline]] void tile(const float* x, std::size_t depth, std::size_t panel, float* y,
                                   std::size_t y_stride, std::size_t lanes, bool first) const {
    using T = Tile<V, Dtype::f32, rows, panels>;
    PanelScales scales[panels];
    alignas(64) float weights[panels * kGroupFloats];
    typename T::Sums s;
    T::clear(s);
    for (std::size_t g = 0; g < depth / kQuantisedGroup; ++g) {
      for (std::size_t p = 0; p < panels; ++p) {
        decode(panel + p, g, scales[p], weights + p * kGroupFloats);
      }
      T::accumulate(s, x + g * kQuantisedGroup * rows, kQuantisedGroup,
                    reinterpret_cast<const std::byte*>(weights), kGroupFloats * sizeof(float));
    }
    T::add_to(s, y, y_stride, lanes, first);
  }
};

template <class V, class Source>
struct BlockedMatmul {
  static constexpr std::size_t kPanel = kPanelRows;
  static constexpr std::size_t kRows = kTileRows<V>;
  static constexpr std::size_t kChunk =
      kRows * 22;  // rows of x whose K block stays in the second-level cache

  const PanelRange& range;

  /// Panels [begin, end), in steps of `panels`, then what is left in smaller steps.
  template <std::size_t rows, std::size_t panels>
  [[gnu::noinline]] static void panel_steps(const Source& source, const PanelRange& range,
                                            const float* x, float* y, std::size_t depth, bool first,
                                            std::size_t begin) {
    std::size_t p = begin;
    for (; p + panels <= range.end; p += panels) {
      const std::size_t left = range.rows - p * kPanel;
      source.template tile<rows, panels>(x, depth, p, y + p * kPanel, range.y_stride,
                                         left < panels * kPanel ? left : panels * kPanel, first);
    }
    if constexpr (panels > 1) {
      if (p < range.end) panel_steps<rows, panels / 2>(source, range, x, y, depth, first, p);
    }
  }

  /// `count` <= kRows rows, chosen at run time.
  template <std::size_t rows = kRows>
  static void tile_row(const Source& source, const PanelRange& range, std::size_t count,
                       const float* x, float* y, std::size_t depth, bool first) {
    if (count == rows) {
      return panel_steps<rows, panels_of<V>(rows)>(source, range, x, y, depth, first, range.begin);
    }
    if constexpr (rows > 1) tile_row<rows - 1>(source, range, count, x, y, depth, first);
  }

  /// Where the tile of rows that begins at `first` lies in the block that begins at `block`.
  [[nodiscard]] const float* tile_at(std::size_t block, std::size_t first) const {
    return range.tiles + tile_offset(range.m, block, depth_at(block), first);
  }

  /// Few rows: the weights are read once, each panel from its first byte to its last, for memory is what is waited for.
  void few_rows() const {
    constexpr std::size_t kGroup = panels_of<V>(1);
    for (std::size_t p = range.begin; p < range.end; p += kGroup) {
      PanelRange group = range;
      group.begin = p;
      group.end = range.end - p < kGroup ? range.end : p + kGroup;
      for (std::size_t block = 0; block < range.cols; block += kBlock) {
        tile_row(Source(range, block), group, range.m, tile_at(block, 0), range.y, depth_at(block),
                 block == 0);
      }
    }
  }

  /// How many k the block that begins at `block` has.
  [[nodiscard]] std::size_t depth_at(std::size_t block) const {
    return range.cols - block < kBlock ? range.cols - block : kBlock;
  }

  /// Many rows, `m` from `first` on: for each K block, each group of panels meets all tiles of rows while it is in the
  /// first-level cache.
  void many_rows(std::size_t first, std::size_t m) const {
    constexpr std::size_t kGroup = panels_of<V>(kRows);
    float* y = range.y + first * range.y_stride;
    for (std::size_t block = 0; block < range.cols; block += kBlock) {
      const Source source(range, block);
      for (std::size_t p = range.begin; p < range.end; p += kGroup) {
        PanelRange group = range;
        group.begin = p;
        group.end = range.end - p < kGroup ? range.end : p + kGroup;
        all_tiles(source, group, y, m, tile_at(block, first), depth_at(block), block == 0);
      }
    }
  }

  /// One group of panels, one block of k. Quantised weights become floats once, for all tiles.
  [[gnu::noinline]] static void all_tiles(const Source& source, const PanelRange& group, float* y,
                                          std::size_t m, const float* tiles, std::size_t depth,
                                          bool first) {
    if constexpr (Source::kQuantised) {
      alignas(64) float weights[panels_of<V>(kRows) * kBlock * kPanel];
      PanelScales scales;
      for (std::size_t p = group.begin; p < group.end; ++p) {
        float* panel = weights + (p - group.begin) * kBlock * kPanel;
        for (std::size_t g = 0; g < depth / kQuantisedGroup; ++g) {
          source.decode(p, g, scales, panel + g * kQuantisedGroup * kPanel);
        }
      }
      PanelRange decoded = group;
      decoded.begin = 0;
      decoded.end = group.end - group.begin;
      decoded.rows = group.rows - group.begin * kPanel;
      using Floats = PackedSource<V, Dtype::f32>;
      return BlockedMatmul<V, Floats>::all_tiles(Floats(weights, kBlock * kPanel * sizeof(float)),
                                                 decoded, y + group.begin * kPanel, m, tiles, depth,
                                                 first);
    }
    for (std::size_t r = 0; r < m; r += kRows) {
      const std::size_t rows = m - r < kRows ? m - r : kRows;
      tile_row(source, group, rows, tiles + r * depth, y + r * group.y_stride, depth, first);
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
      for (std::size_t r = 0; r < range.m; r += kChunk) {
        many_rows(r, range.m - r < kChunk ? range.m - r : kChunk);
      }
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
      return BlockedMatmul<V, PackedSource<V, Dtype::f32>>{range}.run();
    case Dtype::bf16:
      return BlockedMatmul<V, PackedSource<V, Dtype::bf16>>{range}.run();
    case Dtype::f16:
      return BlockedMatmul<V, PackedSource<V, Dtype::f16>>{range}.run();
    default:
      return BlockedMatmul<V, QuantisedSource<V>>{range}.run();
  }
}

}  // namespace verbatim::kernels::detail
