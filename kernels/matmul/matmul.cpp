#include "kernels/matmul/matmul.hpp"

#include "kernels/matmul/detail.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::kernels {

namespace {

// Below this many multiply-adds a hand-over to another thread costs more than it saves.
constexpr std::size_t kWorthThreads = std::size_t{1} << 18;
constexpr std::size_t kWorthThreadsToCopy = std::size_t{1} << 14;  // floats

template <class T>
void pack_panel(std::span<const std::byte* const> rows, std::size_t cols, T* out) {
  for (std::size_t lane = 0; lane < PackedWeights::kPanel; ++lane) {
    const std::byte* source = lane < rows.size() ? rows[lane] : nullptr;
    for (std::size_t k = 0; k < cols; ++k) {
      T value{};
      if (source != nullptr) std::memcpy(&value, source + k * sizeof(T), sizeof(T));
      out[k * PackedWeights::kPanel + lane] = value;
    }
  }
}

std::vector<const std::byte*> rows_of(const WeightsView& view) {
  const std::size_t step = row_bytes(view.dtype, view.cols);
  std::vector<const std::byte*> rows;
  for (std::size_t n = 0; n < view.rows; ++n) {
    rows.push_back(static_cast<const std::byte*>(view.data) + n * step);
  }
  return rows;
}

std::size_t tile_rows(Backend backend) {
  return backend == Backend::avx512 ? detail::kTileRowsAvx512 : detail::kTileRowsAvx2;
}

/// The rows of x as detail::tile_offset() says. Valid until the next call on this thread.
const float* lay_out_tiles(const MatmulArgs& args, std::size_t cols, std::size_t tile,
                           ThreadPool* pool) {
  if (args.m == 1) return args.x;  // one row is its own layout
  thread_local Scratch tiles;      // as large as the largest product yet
  float* out = tiles.take(args.m * cols);
  run_tasks(pool, (args.m + tile - 1) / tile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin * tile; first < std::min(end * tile, args.m); first += tile) {
      const std::size_t rows = std::min(tile, args.m - first);
      for (std::size_t block = 0; block < cols; block += kBlock) {
        const std::size_t depth = std::min(kBlock, cols - block);
        float* to = out + detail::tile_offset(args.m, block, depth, first);
        for (std::size_t r = 0; r < rows; ++r) {
          const float* row = args.x + (first + r) * args.x_stride + block;
          for (std::size_t k = 0; k < depth; ++k) to[k * rows + r] = row[k];
        }
      }
    }
  });
  return out;
}

}  // namespace

PackedWeights::PackedWeights(const WeightsView& view, ThreadPool* pool)
    : PackedWeights(rows_of(view), view.dtype, view.cols, pool) {}

PackedWeights::PackedWeights(std::span<const std::byte* const> rows, Dtype dtype, std::size_t cols,
                             ThreadPool* pool)
    : rows_(rows.size()), cols_(cols), dtype_(dtype) {
  VERBATIM_CHECK(cols % block_layout(dtype).elements == 0);
  if (!is_quantised(dtype)) {
    pack(rows, pool);
    return;
  }
  row_data_.assign(rows.begin(), rows.end());
  if (!rows.empty()) row_data_.resize(panels() * kPanel, rows.back());
}

void PackedWeights::pack(std::span<const std::byte* const> rows, ThreadPool* pool) {
  const std::size_t panel_bytes = row_bytes(dtype_, cols_) * kPanel;
  data_ = AlignedMemory(panels() * panel_bytes);
  run_tasks(pool, panels(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const auto mine = rows.subspan(p * kPanel, std::min(kPanel, rows.size() - p * kPanel));
      std::byte* panel = data_.get() + p * panel_bytes;
      if (dtype_ == Dtype::f32) {
        pack_panel(mine, cols_, reinterpret_cast<std::uint32_t*>(panel));
      } else {
        pack_panel(mine, cols_, reinterpret_cast<std::uint16_t*>(panel));
      }
    }
  });
}

void PackedWeights::unpack_row(std::size_t n, float* out) const {
  VERBATIM_CHECK(n < rows_);
  if (!row_data_.empty()) return to_f32(row_data_[n], dtype_, cols_, out);
  const std::size_t size = block_layout(dtype_).bytes;
  const std::byte* source = data_.get() + ((n / kPanel) * cols_ * kPanel + n % kPanel) * size;
  for (std::size_t k = 0; k < cols_; ++k) {
    to_f32(source + k * kPanel * size, dtype_, 1, out + k);
  }
}

void matmul(Backend backend, const PackedWeights& w, const MatmulArgs& args, ThreadPool* pool) {
  if (args.m == 0 || w.rows() == 0) return;
  if (args.m * w.rows() * w.cols() < kWorthThreads) pool = nullptr;
  const float* tiles =
      backend == Backend::scalar
          ? nullptr
          : lay_out_tiles(args, w.cols(), tile_rows(backend),
                          args.m * w.cols() < kWorthThreadsToCopy ? nullptr : pool);
  run_tasks(pool, w.panels(), [&](std::size_t begin, std::size_t end) {
    const detail::PanelRange range{w.data(),      w.row_data(), w.dtype(), w.rows(),     w.cols(),
                                   begin,         end,          args.x,    tiles,        args.m,
                                   args.x_stride, args.bias,    args.y,    args.y_stride};
    switch (backend) {
      case Backend::scalar:
        return detail::matmul_scalar(range);
      case Backend::avx2:
        return detail::matmul_avx2(range);
      case Backend::avx512:
        return detail::matmul_avx512(range);
    }
  });
}

}  // namespace verbatim::kernels
