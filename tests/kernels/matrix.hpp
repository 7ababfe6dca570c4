#pragma once
// Matrices of weights for the tests of products.

#include "kernels/matmul/matmul.hpp"
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim::kernels::test {

struct Matrix {
  Dtype dtype = Dtype::f32;
  std::size_t rows = 0, cols = 0;
  std::vector<float> exact;          // (rows, cols), the values stored
  std::vector<std::uint8_t> stored;  // one byte late, so that nothing is aligned

  [[nodiscard]] WeightsView view() const { return {stored.data() + 1, dtype, rows, cols}; }
};

inline Matrix random_matrix(std::size_t rows, std::size_t cols, Dtype dtype, std::uint64_t seed,
                            Kind kind) {
  Matrix matrix{dtype, rows, cols, random_floats(rows * cols, seed, kind), {}};
  matrix.stored.resize(1 + rows * cols * element_size(dtype));
  for (std::size_t i = 0; i < rows * cols; ++i) {
    std::uint8_t* to = matrix.stored.data() + 1 + i * element_size(dtype);
    if (dtype == Dtype::f32) {
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&matrix.exact[i]), 4, to);
      continue;
    }
    const std::uint16_t half =
        dtype == Dtype::bf16 ? f32_to_bf16(matrix.exact[i]) : f32_to_f16(matrix.exact[i]);
    matrix.exact[i] = dtype == Dtype::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&half), 2, to);
  }
  return matrix;
}

/// Of the products y (m, rows) of x (m, cols) with the matrix: the largest error against f64, as a part of the sum of
/// |x w|.
inline double worst_relative_error(const Matrix& matrix, const std::vector<float>& x,
                                   const std::vector<float>& y) {
  const std::size_t k = matrix.cols, n = matrix.rows;
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    double exact = 0, size = 0;
    for (std::size_t j = 0; j < k; ++j) {
      const double product =
          static_cast<double>(x[i / n * k + j]) * static_cast<double>(matrix.exact[i % n * k + j]);
      exact += product;
      size += std::fabs(product);
    }
    worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - exact) / size);
  }
  return worst;
}

}  // namespace verbatim::kernels::test
