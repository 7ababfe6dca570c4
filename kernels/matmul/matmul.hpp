#pragma once
// Matrix products with a fixed order of additions:  y[m][n] = sum_k x[m][k] * w[n][k] (+ bias[n])

#include "kernels/backend.hpp"
#include "kernels/block.hpp"
#include "kernels/dtype.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace verbatim::kernels {

/// A weight matrix as stored: row-major (rows, cols) = (N, K), as in a mapped file; any alignment.
struct WeightsView {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0;  ///< N, the outputs
  std::size_t cols = 0;  ///< K
};

/// Weights in the order in which the kernels read them: panels of 16 rows, interleaved by k, in the stored type:
/// element (n, k) is at ((n / 16) * cols + k) * 16 + n % 16; the last panel is filled up with zeros. Made once at load.
/// The same for every backend. Movable, not copyable; reading is thread-safe.
class PackedWeights {
 public:
  static constexpr std::size_t kPanel = kPanelRows;

  PackedWeights() = default;
  /// Copies; `view` may go afterwards.
  explicit PackedWeights(const WeightsView& view, ThreadPool* pool = nullptr);
  /// One matrix of several with the same cols and dtype, rows stacked in order (q, k, v; gate, up): one product
  /// instead of three. The bits of each output are those of the separate products.
  explicit PackedWeights(std::span<const WeightsView> stacked, ThreadPool* pool = nullptr);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] std::size_t panels() const { return (rows_ + kPanel - 1) / kPanel; }
  [[nodiscard]] std::size_t bytes() const {
    return panels() * kPanel * cols_ * element_size(dtype_);
  }
  [[nodiscard]] const void* data() const { return data_.get(); }  ///< 64-byte aligned

  /// Row n (an embedding, when the matrix is tied), exactly: out has cols() elements.
  void unpack_row(std::size_t n, float* out) const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t rows_ = 0, cols_ = 0;
  Dtype dtype_ = Dtype::f32;
};

/// Numerics: section 2 of profile f32-k256/1.
///
///   shapes    x: (m, w.cols()), rows x_stride floats apart; y: (m, w.rows()), rows y_stride apart;
///             bias: (w.rows()) or null. x and y do not overlap
///   order     for each output: in each block of 256 k, s = +0; s = fma(x[k], w[k], s) in rising k;
///             t = +0; t = t + s in rising blocks; last t + bias
///   promise   y[i][n] depends on x[i], w[n] and bias[n] alone: not on m, N, threads, backend or tiling
struct MatmulArgs {
  const float* x = nullptr;
  std::size_t m = 0;
  std::size_t x_stride = 0;
  const float* bias = nullptr;
  float* y = nullptr;
  std::size_t y_stride = 0;
};
void matmul(Backend backend, const PackedWeights& w, const MatmulArgs& args,
            ThreadPool* pool = nullptr);

/// The dot product of that order, of two vectors.
[[nodiscard]] float dot(const float* a, const float* b, std::size_t count);
/// The sum of that order: additions in place of fused multiply-adds.
[[nodiscard]] float sum(const float* a, std::size_t count);

}  // namespace verbatim::kernels
