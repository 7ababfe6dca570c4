#include "kernels/matmul/matmul.hpp"

#include "kernels/matmul/detail.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace verbatim::kernels {

namespace {

constexpr std::size_t kAlignment = 64;
// Below this many multiply-adds a hand-over to another thread costs more than it saves.
constexpr std::size_t kWorthThreads = std::size_t{1} << 18;

template <class T>
void pack_panel(std::span<const WeightsView> views, std::size_t first_row, std::size_t cols,
                T* out) {
  for (std::size_t lane = 0; lane < PackedWeights::kPanel; ++lane) {
    std::size_t row = first_row + lane;
    const std::byte* source = nullptr;
    for (const WeightsView& view : views) {
      if (row < view.rows) {
        source = static_cast<const std::byte*>(view.data) + row * cols * sizeof(T);
        break;
      }
      row -= view.rows;
    }
    for (std::size_t k = 0; k < cols; ++k) {
      T value{};
      if (source != nullptr) std::memcpy(&value, source + k * sizeof(T), sizeof(T));
      out[k * PackedWeights::kPanel + lane] = value;
    }
  }
}

}  // namespace

void PackedWeights::Free::operator()(std::byte* p) const { std::free(p); }

PackedWeights::PackedWeights(const WeightsView& view, ThreadPool* pool)
    : PackedWeights(std::span(&view, 1), pool) {}

PackedWeights::PackedWeights(std::span<const WeightsView> stacked, ThreadPool* pool) {
  VERBATIM_CHECK(!stacked.empty());
  cols_ = stacked[0].cols;
  dtype_ = stacked[0].dtype;
  for (const WeightsView& view : stacked) {
    VERBATIM_CHECK(view.cols == cols_ && view.dtype == dtype_);
    rows_ += view.rows;
  }
  const std::size_t size = (bytes() + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(size, kAlignment))));
  if (data_ == nullptr) throw std::bad_alloc();
  run_tasks(pool, panels(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      std::byte* panel = data_.get() + p * kPanel * cols_ * element_size(dtype_);
      if (dtype_ == Dtype::f32) {
        pack_panel(stacked, p * kPanel, cols_, reinterpret_cast<std::uint32_t*>(panel));
      } else {
        pack_panel(stacked, p * kPanel, cols_, reinterpret_cast<std::uint16_t*>(panel));
      }
    }
  });
}

void PackedWeights::unpack_row(std::size_t n, float* out) const {
  VERBATIM_CHECK(n < rows_);
  const std::size_t size = element_size(dtype_);
  const std::byte* source = data_.get() + ((n / kPanel) * cols_ * kPanel + n % kPanel) * size;
  for (std::size_t k = 0; k < cols_; ++k) {
    to_f32(source + k * kPanel * size, dtype_, 1, out + k);
  }
}

void matmul(Backend backend, const PackedWeights& w, const MatmulArgs& args, ThreadPool* pool) {
  if (args.m == 0 || w.rows() == 0) return;
  const bool small = args.m * w.rows() * w.cols() < kWorthThreads;
  run_tasks(small ? nullptr : pool, w.panels(), [&](std::size_t begin, std::size_t end) {
    const detail::PanelRange range{w.data(),      w.dtype(), w.rows(), w.cols(),
                                   begin,         end,       args.x,   args.m,
                                   args.x_stride, args.bias, args.y,   args.y_stride};
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
