#pragma once
// Matrix products with a fixed order of additions:  y[m][n] = sum_k x[m][k] * w[n][k] (+ bias[n])

#include "kernels/backend.hpp"
#include "kernels/block.hpp"
#include "kernels/dtype.hpp"
#include "kernels/memory.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace verbatim::kernels {

/// A weight matrix as stored: row-major (rows, cols) = (N, K), as in a mapped file; any alignment.
struct WeightsView {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0;  ///< N, the outputs
  std::size_t cols = 0;  ///< K; a whole number of the dtype's blocks
};

/// A weight matrix as the kernels read it; the same for every backend. Movable, not copyable; reading is thread-safe.
///
/// Floats are copied into panels of 16 rows, interleaved by k, in the stored type: element (n, k) is at
/// ((n / 16) * cols + k) * 16 + n % 16; the last panel is filled up with zeros. Made once at load, from rows that may go.
/// Quantised rows stay where they are, as they are (a mapped file), and must outlive this: a product decodes them on
/// their way into registers.
class PackedWeights {
 public:
  static constexpr std::size_t kPanel = kPanelRows;

  PackedWeights() = default;
  explicit PackedWeights(const WeightsView& view, ThreadPool* pool = nullptr);
  /// Rows in this order, wherever each lies: several matrices become one (q, k, v; gate, up), whose outputs have the
  /// bits of the separate products. Each points to `cols` elements.
  PackedWeights(std::span<const std::byte* const> rows, Dtype dtype, std::size_t cols,
                ThreadPool* pool = nullptr);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] std::size_t panels() const { return (rows_ + kPanel - 1) / kPanel; }
  /// The packed panels, 64-byte aligned, and how long they are; null and 0 when quantised.
  [[nodiscard]] const void* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const {
    return data_.get() == nullptr ? 0 : panels() * kPanel * row_bytes(dtype_, cols_);
  }
  /// The rows themselves, 16 a panel, the last one repeated to fill its panel; null unless quantised.
  [[nodiscard]] const std::byte* const* row_data() const {
    return row_data_.empty() ? nullptr : row_data_.data();
  }

  /// Row n (an embedding, when the matrix is tied) as to_f32(): out has cols() elements.
  void unpack_row(std::size_t n, float* out) const;

 private:
  void pack(std::span<const std::byte* const> rows, ThreadPool* pool);

  AlignedMemory data_;
  std::vector<const std::byte*> row_data_;
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
