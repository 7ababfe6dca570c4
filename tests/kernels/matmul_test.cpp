// Matrix products: the order of additions, and that nothing but the row and the weights decides a bit.

#include "kernels/matmul/matmul.hpp"

#include "matrix.hpp"

#include <algorithm>

namespace verbatim::kernels::test {
namespace {

/// One output, written again from the profile's text.
float profile_dot(const float* x, const float* w, std::size_t count) {
  float t = 0;
  for (std::size_t block = 0; block < count; block += 256) {
    float s = 0;
    for (std::size_t k = block; k < std::min(block + 256, count); ++k) s = std::fma(x[k], w[k], s);
    t = t + s;
  }
  return t;
}

std::vector<float> run(Backend backend, const PackedWeights& w, std::span<const float> x,
                       std::size_t m, const float* bias = nullptr, ThreadPool* pool = nullptr) {
  std::vector<float> y(m * w.rows(), 99.0f);
  matmul(backend, w, {x.data(), m, w.cols(), bias, y.data(), w.rows()}, pool);
  return y;
}

class Matmul : public testing::TestWithParam<std::size_t> {};

TEST_P(Matmul, EveryBackendAddsInTheProfilesOrder) {
  const std::size_t k = GetParam(), n = 37, m = 5;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const Kind kind : kKinds) {
      const Matrix matrix = random_matrix(n, k, dtype, k, kind);
      const std::vector<float> x = random_floats(m * k, k + 1, kind);
      const std::vector<float> bias = random_floats(n, k + 2, kind);
      const PackedWeights w(matrix.view());
      for (const Backend backend : supported_backends()) {
        const std::vector<float> y = run(backend, w, x, m);
        const std::vector<float> biased = run(backend, w, x, m, bias.data());
        for (std::size_t i = 0; i < m * n; ++i) {
          const float t = profile_dot(x.data() + i / n * k, matrix.exact.data() + i % n * k, k);
          ASSERT_TRUE(same_bits(y[i], t)) << name(backend) << " " << text(kind) << " output " << i;
          ASSERT_TRUE(same_bits(biased[i], t + bias[i % n])) << name(backend) << " output " << i;
        }
      }
    }
  }
}

TEST_P(Matmul, EveryBatchFrom1To257GivesEachRowTheSameBits) {
  const std::size_t k = GetParam(), n = 50, m_max = 257;
  const Matrix matrix = random_matrix(n, k, Dtype::f32, 7 * k, Kind::adversarial);
  const std::vector<float> x = random_floats(m_max * k, 7 * k + 1, Kind::adversarial);
  const PackedWeights w(matrix.view());
  const std::vector<float> reference = run(Backend::scalar, w, x, m_max);
  for (const Backend backend : supported_backends()) {
    if (backend == Backend::scalar) continue;
    for (std::size_t m = 1; m <= m_max; ++m) {
      const std::vector<float> y = run(backend, w, x, m);
      ASSERT_TRUE(same_bits(y, std::span(reference).first(m * n)))
          << name(backend) << ", m = " << m;
    }
  }
}

// Around the block of 256, and beyond three of them.
INSTANTIATE_TEST_SUITE_P(Depths, Matmul, testing::Values(1, 15, 255, 256, 257, 511, 513, 1000));

TEST(MatmulShapes, EveryNumberOfOutputsAndRowsAgrees) {
  for (const std::size_t k : {std::size_t{3}, std::size_t{300}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (std::size_t n = 1; n <= 150; n += n < 40 ? 1 : 7) {
        const Matrix matrix = random_matrix(n, k, dtype, n, Kind::adversarial);
        const std::vector<float> x = random_floats(14 * k, n + 1, Kind::adversarial);
        const PackedWeights w(matrix.view());
        for (const std::size_t m : {1, 2, 3, 4, 6, 7, 12, 14}) {
          const std::vector<float> reference = run(Backend::scalar, w, x, m);
          for (const Backend backend : supported_backends()) {
            ASSERT_TRUE(same_bits(run(backend, w, x, m), reference))
                << name(backend) << " " << m << "x" << n;
          }
        }
      }
    }
  }
}

TEST(MatmulShapes, ARowsBitsDoNotDependOnItsPlaceOrItsNeighbours) {
  const std::size_t k = 700, n = 64, m = 33;
  const Matrix matrix = random_matrix(n, k, Dtype::bf16, 1, Kind::ordinary);
  const PackedWeights w(matrix.view());
  std::vector<float> x = random_floats(m * k, 2);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> together = run(backend, w, x, m);
    for (std::size_t r = 0; r < m; ++r) {
      const std::vector<float> alone = run(backend, w, std::span(x).subspan(r * k, k), 1);
      EXPECT_TRUE(same_bits(alone, std::span(together).subspan(r * n, n))) << "row " << r;
    }
  }
}

TEST(MatmulShapes, ThreadsChangeNoBit) {
  const std::size_t k = 515, n = 333, m = 40;
  const Matrix matrix = random_matrix(n, k, Dtype::f16, 3, Kind::adversarial);
  const std::vector<float> x = random_floats(m * k, 4, Kind::adversarial);
  const std::vector<float> bias = random_floats(n, 5);
  const PackedWeights w(matrix.view());
  for (const Backend backend : supported_backends()) {
    const std::vector<float> alone = run(backend, w, x, m, bias.data());
    for (const int threads : {1, 2, 3, 5, 8}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 3; ++repeat) {
        EXPECT_TRUE(same_bits(run(backend, w, x, m, bias.data(), &pool), alone))
            << threads << " threads";
      }
      EXPECT_TRUE(
          same_bits(run(backend, PackedWeights(matrix.view(), &pool), x, m, bias.data()), alone));
    }
  }
}

TEST(MatmulShapes, StackedWeightsGiveTheBitsOfSeparateProducts) {
  const std::size_t k = 300, m = 3;
  const Matrix a = random_matrix(21, k, Dtype::bf16, 1, Kind::ordinary);
  const Matrix b = random_matrix(5, k, Dtype::bf16, 2, Kind::ordinary);
  std::vector<const std::byte*> rows;
  for (const Matrix* matrix : {&a, &b}) {
    const auto* first = static_cast<const std::byte*>(matrix->view().data);
    for (std::size_t r = 0; r < matrix->rows; ++r)
      rows.push_back(first + r * row_bytes(Dtype::bf16, k));
  }
  const PackedWeights stacked(rows, Dtype::bf16, k);
  const std::vector<float> x = random_floats(m * k, 3);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> y = run(backend, stacked, x, m);
    const std::vector<float> y_a = run(backend, PackedWeights(a.view()), x, m);
    const std::vector<float> y_b = run(backend, PackedWeights(b.view()), x, m);
    for (std::size_t r = 0; r < m; ++r) {
      EXPECT_TRUE(same_bits(std::span(y).subspan(r * 26, 21), std::span(y_a).subspan(r * 21, 21)));
      EXPECT_TRUE(
          same_bits(std::span(y).subspan(r * 26 + 21, 5), std::span(y_b).subspan(r * 5, 5)));
    }
  }
}

TEST(MatmulShapes, StridesAreRespectedAndNothingElseIsWritten) {
  const std::size_t k = 20, n = 19, m = 30, x_stride = 23, y_stride = 25;
  const Matrix matrix = random_matrix(n, k, Dtype::f32, 1, Kind::ordinary);
  const PackedWeights w(matrix.view());
  const std::vector<float> x = random_floats(m * x_stride, 2);
  for (const Backend backend : supported_backends()) {
    std::vector<float> y(m * y_stride, 99.0f);
    matmul(backend, w, {x.data(), m, x_stride, nullptr, y.data(), y_stride});
    for (std::size_t r = 0; r < m; ++r) {
      for (std::size_t c = 0; c < y_stride; ++c) {
        const float expected =
            c < n ? profile_dot(x.data() + r * x_stride, matrix.exact.data() + c * k, k) : 99.0f;
        ASSERT_TRUE(same_bits(y[r * y_stride + c], expected)) << r << "," << c;
      }
    }
  }
}

TEST(MatmulShapes, UnpackedRowsAreTheStoredRows) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Matrix matrix = random_matrix(35, 30, dtype, 9, Kind::adversarial);
    const PackedWeights w(matrix.view());
    for (std::size_t r = 0; r < 35; ++r) {
      std::vector<float> row(30);
      w.unpack_row(r, row.data());
      EXPECT_TRUE(same_bits(row, std::span(matrix.exact).subspan(r * 30, 30)));
    }
  }
}

TEST(MatmulShapes, TheErrorAgainstF64IsBounded) {
  // |error| <= gamma * sum |x w|, gamma = (256 + blocks) * 2^-24 for chains of 256 and a chain of blocks.
  const std::size_t k = 2048, n = 64, m = 4;
  const Matrix matrix = random_matrix(n, k, Dtype::f32, 11, Kind::ordinary);
  const std::vector<float> x = random_floats(m * k, 12);
  const std::vector<float> y = run(best_backend(), PackedWeights(matrix.view()), x, m);
  const double worst = worst_relative_error(matrix, x, y);
  EXPECT_LE(worst, (256 + 8) * 0x1p-24);
  EXPECT_GT(worst, 0);
  RecordProperty("worst_relative_error", std::to_string(worst));
}

TEST(Sums, DotAndSumFollowTheProfilesOrderAtEveryLength) {
  const std::vector<float> a = random_floats(5000, 1, Kind::adversarial);
  const std::vector<float> b = random_floats(5000, 2, Kind::adversarial);
  for (const std::size_t count : {0, 1, 255, 256, 257, 2047, 2048, 2049, 2304, 4096, 4097, 5000}) {
    EXPECT_TRUE(same_bits(dot(a.data(), b.data(), count), profile_dot(a.data(), b.data(), count)))
        << count;
    float t = 0;
    for (std::size_t block = 0; block < count; block += 256) {
      float s = 0;
      for (std::size_t k = block; k < std::min<std::size_t>(block + 256, count); ++k) s = s + a[k];
      t = t + s;
    }
    EXPECT_TRUE(same_bits(sum(a.data(), count), t)) << count;
  }
}

TEST(Dtypes, EveryHalfFloatConvertsExactlyAndBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const std::uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const float value = f16_to_f32(half);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double magnitude = exponent == 0
                                   ? std::ldexp(fraction, -24)
                                   : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
      EXPECT_EQ(static_cast<double>(std::fabs(value)), magnitude);
      EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    }
    if (!std::isnan(value)) {
      EXPECT_EQ(f32_to_f16(value), half);
    }
    if (!std::isnan(bf16_to_f32(half))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
}

TEST(Dtypes, RoundingToHalvesGoesToTheNearestEven) {
  Random random(5);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random.next());
    const float x = std::ldexp(std::fabs(random.unit()), static_cast<int>(random.below(45)) - 28);
    const std::uint16_t h = f32_to_f16(x);
    if (h >= 0x7c00) {
      EXPECT_GE(x, 65520.0f);
    } else {
      const float below = h > 0 ? f16_to_f32(static_cast<std::uint16_t>(h - 1)) : -f16_to_f32(1);
      const float above = h + 1 < 0x7c00 ? f16_to_f32(static_cast<std::uint16_t>(h + 1)) : 65536.0f;
      const float distance = std::fabs(x - f16_to_f32(h));  // exact: both are near
      EXPECT_LE(distance, std::fabs(x - below));
      EXPECT_LE(distance, std::fabs(x - above));
      if (distance == std::fabs(x - below) || distance == std::fabs(x - above)) {
        EXPECT_EQ(h & 1, 0) << x;
      }
    }
    const float any = std::bit_cast<float>(bits);
    if (std::isnan(any)) continue;
    const float rounded = bf16_to_f32(f32_to_bf16(any));
    const std::uint32_t tail = bits & 0xffff;
    const std::uint32_t up =
        tail > 0x8000 || (tail == 0x8000 && (bits & 0x10000) != 0) ? 0x10000 : 0;
    EXPECT_EQ(bits_of(rounded), (bits & 0xffff0000u) + up);
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::quiet_NaN()), 0x7fff);
}

}  // namespace
}  // namespace verbatim::kernels::test
