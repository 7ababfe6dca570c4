// Profile mma-hopper/1: one instruction against results of real cards and against exact arithmetic, and the product's order
// of additions.

#include "kernels/mma/mma.hpp"

#include "kernels/profile.hpp"
#include "matrix.hpp"
#include "tests/support/shared.hpp"

#include <gmp.h>

#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string>

namespace verbatim::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint16_t half_of(float value, Dtype dtype) {
  return dtype == Dtype::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
}
float value_of(std::uint16_t half, Dtype dtype) {
  return dtype == Dtype::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
}

/// An integer of any size.
class Exact {
 public:
  Exact() { mpz_init(z); }
  ~Exact() { mpz_clear(z); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  mpz_t z;  // NOLINT(misc-non-private-member-variables-in-classes): what the library takes
};

/// How a class of cards adds: so many products at once, so many bits kept below the largest exponent.
struct CardClass {
  std::size_t group;
  int fraction_bits, exponent_min;
};
constexpr CardClass kHopper{16, 25, -133}, kAmpere{8, 24, -132};

/// The instruction again, from values in place of bits, in exact integers: all terms are multiples of 2^-298.
float exact_block(const CardClass& cards, Dtype dtype, std::span<const float> a,
                  std::span<const float> b, float c) {
  const int smallest = dtype == Dtype::bf16 ? -126 : -14;
  const auto exponent = [](float value, int least) { return std::max(std::ilogb(value), least); };
  for (std::size_t first = 0; first < a.size(); first += cards.group) {
    int largest = cards.exponent_min;
    if (!std::isfinite(c) || (c != 0 && std::fabs(c) < 0x1p-100f)) return NAN;
    if (c != 0) largest = std::max(largest, exponent(c, -126));
    for (std::size_t i = first; i < first + cards.group; ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return NAN;
      if (a[i] == 0 || b[i] == 0) continue;
      largest = std::max(largest, exponent(a[i], smallest) + exponent(b[i], smallest));
    }
    const int unit = largest - cards.fraction_bits;
    const auto cut = static_cast<mp_bitcnt_t>(unit + 298);
    Exact sum, term, factor;
    for (std::size_t i = first; i < first + cards.group; ++i) {
      mpz_set_d(term.z, std::ldexp(static_cast<double>(a[i]), 149));
      mpz_set_d(factor.z, std::ldexp(static_cast<double>(b[i]), 149));
      mpz_mul(term.z, term.z, factor.z);
      mpz_tdiv_q_2exp(term.z, term.z, cut);
      mpz_add(sum.z, sum.z, term.z);
    }
    mpz_set_d(term.z, std::ldexp(static_cast<double>(c), 149));
    mpz_mul_2exp(term.z, term.z, 149);
    mpz_tdiv_q_2exp(term.z, term.z, cut);
    mpz_add(sum.z, sum.z, term.z);
    const int bits = static_cast<int>(mpz_sizeinbase(sum.z, 2));
    const int dropped = std::max(0, bits - 24);
    mpz_tdiv_q_2exp(sum.z, sum.z, static_cast<mp_bitcnt_t>(dropped));
    const double result = std::ldexp(mpz_get_d(sum.z), unit + dropped);
    if (std::fabs(result) < 0x1p-149) {
      c = 0;
      continue;
    }
    if (std::fabs(result) < 0x1p-100 || std::fabs(result) > 0x1.fffffep127) return NAN;
    c = static_cast<float>(result);
  }
  return c;
}

std::vector<std::uint16_t> halves_of(std::span<const float> values, Dtype dtype) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(half_of(value, dtype));
  return halves;
}

float block(Dtype dtype, std::span<const float> a, std::span<const float> b, float c) {
  std::vector<std::uint16_t> x = halves_of(a, dtype), w = halves_of(b, dtype);
  x.resize(kMmaDepth);
  w.resize(kMmaDepth);
  return mma_block(dtype, x.data(), w.data(), c);
}

/// One call of the instruction on a real card.
struct Measured {
  std::vector<float> a, b;
  float c = 0, d = 0;
};

/// Words of one file, each line some of them.
std::vector<std::vector<float>> read_floats(const std::filesystem::path& path, int base) {
  std::vector<std::vector<float>> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    rows.emplace_back();
    for (std::string word; words >> word;)
      rows.back().push_back(
          std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word, nullptr, base))));
  }
  return rows;
}

std::vector<Measured> read_measured(const std::filesystem::path& folder, const std::string& name) {
  const auto file = [&](const char* which, int base) {
    return read_floats(folder / (name + "_" + which + ".txt"), base);
  };
  const auto a = file("a", 16), b = file("b", 16), c = file("c", 2), d = file("d", 2);
  std::vector<Measured> all;
  for (std::size_t i = 0; i < a.size(); ++i)
    all.push_back({a[i], b.at(i), c.at(i).at(0), d.at(i).at(0)});
  return all;
}

class MmaBlock : public testing::TestWithParam<Dtype> {
 protected:
  static std::string files() { return GetParam() == Dtype::bf16 ? "_bf16" : "_fp16"; }
};

TEST_P(MmaBlock, GivesWhatAnH200Computed) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/tensor-core");
  const auto measured = read_measured(folder, "H200" + files());
  ASSERT_EQ(measured.size(), 5000u);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Measured& each = measured[i];
    ASSERT_EQ(each.a.size(), kMmaDepth);
    ASSERT_EQ(bits_of(block(GetParam(), each.a, each.b, each.c)), bits_of(each.d)) << "row " << i;
    ASSERT_EQ(bits_of(exact_block(kHopper, GetParam(), each.a, each.b, each.c)), bits_of(each.d));
  }
}

// An A100 adds eight products at once and keeps a bit less: its results are another profile's.
TEST_P(MmaBlock, IsNotWhatAnA100Computes) {
  VERBATIM_NEED_SHARED(folder, "data/vectors/tensor-core");
  const auto measured = read_measured(folder, "A100" + files());
  ASSERT_EQ(measured.size(), 5000u);
  int differing = 0;
  for (const Measured& each : measured) {
    ASSERT_EQ(each.a.size(), 8u);
    ASSERT_EQ(bits_of(exact_block(kAmpere, GetParam(), each.a, each.b, each.c)), bits_of(each.d));
    if (bits_of(block(GetParam(), each.a, each.b, each.c)) != bits_of(each.d)) ++differing;
  }
  EXPECT_GT(differing, 100);
}

/// What a factor is like: `spread` powers of two around 2^middle, some of them zeros.
float random_factor(Random& random, Dtype dtype, int middle, int spread) {
  if (random.below(8) == 0) return std::copysign(0.0f, random.unit());
  const int shift = middle + static_cast<int>(random.below(static_cast<std::size_t>(spread)));
  return value_of(half_of(std::ldexp(random.unit(), shift), dtype), dtype);
}

TEST_P(MmaBlock, AgreesWithExactArithmeticForFactorsOfAllSizes) {
  const Dtype dtype = GetParam();
  struct Setting {
    int middle, spread;
  };
  Random random(dtype == Dtype::bf16 ? 1 : 2);
  int finite = 0, out_of_range = 0;
  for (const Setting setting :
       {Setting{-1, 3}, {-10, 20}, {-26, 40}, {-60, 60}, {-75, 40}, {-140, 120}, {0, 120}}) {
    for (int round = 0; round < 5'000; ++round) {
      std::vector<float> a, b;
      for (std::size_t i = 0; i < kMmaDepth; ++i) {
        a.push_back(random_factor(random, dtype, setting.middle, setting.spread));
        b.push_back(random_factor(random, dtype, setting.middle, setting.spread));
        // Sums that cancel: the same product with another sign.
        if (i % 2 == 1 && random.below(3) == 0) a[i] = -a[i - 1], b[i] = b[i - 1];
      }
      const float c =
          random.below(4) == 0
              ? 0
              : std::ldexp(random.unit(),
                           2 * setting.middle + static_cast<int>(random.below(
                                                    static_cast<std::size_t>(2 * setting.spread))));
      const float expected = exact_block(kHopper, dtype, a, b, c);
      ASSERT_TRUE(same_bits(block(dtype, a, b, c), expected))
          << "middle " << setting.middle << ", round " << round << ": " << std::hexfloat
          << block(dtype, a, b, c) << " against " << expected;
      ++(std::isnan(expected) ? out_of_range : finite);
    }
  }
  EXPECT_GT(finite, 10'000);
  EXPECT_GT(out_of_range, 1'000);
}

INSTANTIATE_TEST_SUITE_P(Types, MmaBlock, testing::Values(Dtype::bf16, Dtype::f16),
                         [](const auto& param_info) {
                           return param_info.param == Dtype::bf16 ? "bf16" : "f16";
                         });

/// The first factors of a block; the others are zero.
float of(Dtype dtype, std::initializer_list<float> a, std::initializer_list<float> b, float c) {
  return block(dtype, std::vector<float>(a), std::vector<float>(b), c);
}

TEST(MmaBlockEdges, TermsAndSumsAreCutTowardZero) {
  // Beside 1, 2^-25 is the last bit that is kept, and 2^-26 is not kept.
  EXPECT_EQ(of(Dtype::bf16, {1, 0x1p-13f}, {1, 0x1p-13f}, 0), 1);
  EXPECT_EQ(of(Dtype::bf16, {1, 0x1p-13f, -1}, {1, 0x1p-12f, 1}, 0), 0x1p-25f);
  EXPECT_EQ(of(Dtype::bf16, {1, -0x1p-13f, -1}, {1, 0x1p-12f, 1}, 0), -0x1p-25f);
  EXPECT_EQ(bits_of(of(Dtype::bf16, {1, -0x1p-13f, -1}, {1, 0x1p-13f, 1}, 0)), 0u);
  // The sum keeps 24 bits: 2 - 2^-24 becomes 2 - 2^-23.
  EXPECT_EQ(of(Dtype::bf16, {2, -0x1p-12f}, {1, 0x1p-12f}, 0), 0x1.fffffep0f);
  // A product of 2 and more is aligned by its factors' exponents: 1.5 * 1.5 counts as 2^0.
  EXPECT_EQ(of(Dtype::bf16, {1.5f, 0x1p-13f, -1.5f}, {1.5f, 0x1p-12f, 1.5f}, 0), 0x1p-25f);
  // So is c.
  EXPECT_EQ(of(Dtype::f16, {-1}, {1}, 0x1.000002p0f), 0x1p-23f);
}

TEST(MmaBlockEdges, AZeroIsPositive) {
  EXPECT_EQ(bits_of(of(Dtype::bf16, {}, {}, 0)), 0u);
  EXPECT_EQ(bits_of(of(Dtype::bf16, {-1}, {0.0f}, -0.0f)), 0u);
  EXPECT_EQ(bits_of(of(Dtype::f16, {-3}, {2}, 6)), 0u);
}

TEST(MmaBlockEdges, ASubnormalFactorHasTheExponentOfTheSmallestNormalOne) {
  // Of f16, 2^-24 counts as 2^-14: beside it 2^-40 is the 26th bit, and is cut away.
  EXPECT_EQ(of(Dtype::f16, {0x1p-24f, 0x1p-20f, -0x1p-24f}, {1, 0x1p-20f, 1}, 0), 0);
  EXPECT_EQ(of(Dtype::f16, {0x1p-24f, 0x1p-19f, -0x1p-24f}, {1, 0x1p-20f, 1}, 0), 0x1p-39f);
}

TEST(MmaBlockEdges, OutsideTheRangeOfTheProfileThereIsNoNumber) {
  const auto is_nan = [](float value) { return std::isnan(value); };
  EXPECT_EQ(of(Dtype::bf16, {0x1p-50f}, {0x1p-50f}, 0), 0x1p-100f);
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {0x1p-50f}, {0x1p-51f}, 0));
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {0x1p-50f}, {-0x1.fep-51f}, 0));
  EXPECT_EQ(of(Dtype::bf16, {}, {}, -0x1p-100f), -0x1p-100f);
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {1}, {1}, 0x1.fffffep-101f));
  // What cancels is zero, however small it was; what is below every bit that is kept is nothing.
  EXPECT_EQ(bits_of(of(Dtype::bf16, {0x1p-60f, -0x1p-60f}, {0x1p-60f, 0x1p-60f}, 0)), 0u);
  EXPECT_EQ(bits_of(of(Dtype::bf16, {0x1p-80f}, {0x1p-79f}, 0)), 0u);
  // Nor is a result what is below the smallest float.
  EXPECT_EQ(bits_of(of(Dtype::bf16, {0x1p-75f}, {-0x1p-75f}, 0)), 0u);
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {0x1p-75f}, {-0x1p-74f}, 0));
  // The largest float, and beyond.
  EXPECT_EQ(of(Dtype::bf16, {0x1p64f}, {0x1p63f}, 0x1.fffffep126f), 0x1.fffffep127f);
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {0x1p64f}, {0x1p64f}, 0));
  EXPECT_PRED1(is_nan, of(Dtype::bf16, {0x1p64f, 0x1p64f}, {0x1p63f, 0x1p63f}, 0));
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_PRED1(is_nan, of(Dtype::f16, {bad}, {0.0f}, 0));
    EXPECT_PRED1(is_nan, of(Dtype::f16, {0.0f}, {bad}, 0));
    EXPECT_PRED1(is_nan, of(Dtype::f16, {1}, {1}, bad));
  }
}

/// A product's outputs, written again from the profile's text.
std::vector<float> profile_product(const Matrix& w, std::span<const float> x, std::size_t m,
                                   const float* bias) {
  std::vector<float> y;
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t n = 0; n < w.rows; ++n) {
      float t = 0;
      for (std::size_t first = 0; first < w.cols; first += 256) {
        float s = 0;
        for (std::size_t k = first; k < std::min(first + 256, w.cols); k += 16) {
          std::vector<float> a, b;
          for (std::size_t i = k; i < std::min(k + 16, w.cols); ++i) {
            a.push_back(value_of(half_of(x[row * w.cols + i], w.dtype), w.dtype));
            b.push_back(w.exact[n * w.cols + i]);
          }
          a.resize(16);
          b.resize(16);
          s = exact_block(kHopper, w.dtype, a, b, s);
        }
        t = t + s;
      }
      for (std::size_t k = 0; k < w.cols; ++k) {
        if (!std::isfinite(value_of(half_of(x[row * w.cols + k], w.dtype), w.dtype))) t = NAN;
      }
      y.push_back(bias == nullptr ? t : t + bias[n]);
    }
  }
  return y;
}

std::vector<float> run(Backend backend, const PackedWeights& w, std::span<const float> x,
                       std::size_t m, const float* bias = nullptr, ThreadPool* pool = nullptr) {
  std::vector<float> y(m * w.rows(), 99.0f);
  mma_matmul(backend, w, {x.data(), m, w.cols(), bias, y.data(), w.rows()}, pool);
  return y;
}

class MmaProduct : public testing::TestWithParam<std::size_t> {};

TEST_P(MmaProduct, EveryBackendAddsInTheProfilesOrder) {
  const std::size_t k = GetParam(), n = 21, m = 7;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const Kind kind : kKinds) {
      const Matrix matrix = random_matrix(n, k, dtype, k, kind);
      const std::vector<float> x = random_floats(m * k, k + 1, kind);
      const std::vector<float> bias = random_floats(n, k + 2);
      const PackedWeights w(matrix.view());
      const std::vector<float> expected = profile_product(matrix, x, m, bias.data());
      for (const Backend backend : supported_backends()) {
        ASSERT_TRUE(same_bits(run(backend, w, x, m, bias.data()), expected))
            << name(backend) << " " << text(kind);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, MmaProduct,
                         testing::Values(1, 15, 16, 17, 31, 240, 255, 256, 257, 272, 511, 513,
                                         700));

/// Values of one size: rows whose sums are near the ends of what the vector forms take a short cut for.
TEST(MmaShapes, EveryBackendAgreesWhereSumsAreVerySmallOrLarge) {
  const std::size_t k = 300, n = 33, m = 6;
  for (int size = -70; size <= 66; ++size) {
    const Matrix matrix = random_matrix(n, k, Dtype::bf16, 5, Kind::ordinary);
    std::vector<float> x = random_floats(m * k, static_cast<std::uint64_t>(size + 100));
    Matrix scaled = matrix;
    for (std::size_t i = 0; i < scaled.exact.size(); ++i) {
      const std::uint16_t half = f32_to_bf16(std::ldexp(scaled.exact[i], size));
      std::memcpy(scaled.stored.data() + 1 + 2 * i, &half, 2);
    }
    for (float& value : x) value = std::ldexp(value, size);
    const PackedWeights w(scaled.view());
    const std::vector<float> reference = run(Backend::scalar, w, x, m);
    for (const Backend backend : supported_backends())
      ASSERT_TRUE(same_bits(run(backend, w, x, m), reference)) << name(backend) << ", 2^" << size;
  }
}

/// Sixteen products of almost 4 and a c of almost 2, aligned alike: beyond 31 bits.
TEST(MmaShapes, EveryBackendAgreesOnTheLargestSumOfAStep) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const float largest = dtype == Dtype::bf16 ? 0x1.fep0f : 0x1.ffcp0f;
    Matrix matrix = random_matrix(2, 32, dtype, 1, Kind::ordinary);
    for (std::size_t i = 0; i < matrix.exact.size(); ++i) {
      matrix.exact[i] = i < 32 ? largest : -largest;
      if (i % 32 < 16) matrix.exact[i] = i % 32 == 0 ? std::copysign(1.0f, matrix.exact[i]) : 0;
      const std::uint16_t half = half_of(matrix.exact[i], dtype);
      std::memcpy(matrix.stored.data() + 1 + 2 * i, &half, 2);
    }
    const std::vector<float> x(32, largest);
    const std::vector<float> expected = profile_product(matrix, x, 1, nullptr);
    EXPECT_GT(expected[0], 64);
    EXPECT_EQ(expected[1], -expected[0]);
    for (const Backend backend : supported_backends())
      EXPECT_TRUE(same_bits(run(backend, PackedWeights(matrix.view()), x, 1), expected));
  }
}

TEST(MmaShapes, EveryNumberOfOutputsAndRowsAgrees) {
  const std::size_t k = 40, m_max = 257;
  for (std::size_t n = 1; n <= 50; n += n < 20 ? 1 : 6) {
    const Matrix matrix = random_matrix(n, k, Dtype::f16, n, Kind::ordinary);
    const std::vector<float> x = random_floats(m_max * k, n + 1);
    const PackedWeights w(matrix.view());
    const std::vector<float> reference = run(Backend::scalar, w, x, m_max);
    for (const Backend backend : supported_backends()) {
      for (const std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, 255, 256, 257}) {
        ASSERT_TRUE(same_bits(run(backend, w, x, m), std::span(reference).first(m * n)))
            << name(backend) << " " << m << "x" << n;
      }
    }
  }
}

TEST(MmaShapes, ARowsBitsDoNotDependOnItsPlaceItsNeighboursOrThreads) {
  const std::size_t k = 515, n = 77, m = 21;
  const Matrix matrix = random_matrix(n, k, Dtype::bf16, 1, Kind::adversarial);
  const PackedWeights w(matrix.view());
  const std::vector<float> x = random_floats(m * k, 2, Kind::adversarial);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> together = run(backend, w, x, m);
    for (std::size_t r = 0; r < m; ++r) {
      const std::vector<float> alone = run(backend, w, std::span(x).subspan(r * k, k), 1);
      EXPECT_TRUE(same_bits(alone, std::span(together).subspan(r * n, n))) << "row " << r;
    }
    for (const int threads : {2, 3, 5}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(same_bits(run(backend, w, x, m, nullptr, &pool), together));
    }
  }
}

TEST(MmaShapes, StridesAreRespectedAndNothingElseIsWritten) {
  const std::size_t k = 20, n = 19, m = 9, x_stride = 23, y_stride = 25;
  const Matrix matrix = random_matrix(n, k, Dtype::bf16, 1, Kind::ordinary);
  const PackedWeights w(matrix.view());
  const std::vector<float> x = random_floats(m * x_stride, 2);
  for (const Backend backend : supported_backends()) {
    std::vector<float> y(m * y_stride, 99.0f);
    mma_matmul(backend, w, {x.data(), m, x_stride, nullptr, y.data(), y_stride});
    for (std::size_t r = 0; r < m; ++r) {
      const std::vector<float> expected =
          profile_product(matrix, std::span(x).subspan(r * x_stride, k), 1, nullptr);
      for (std::size_t c = 0; c < y_stride; ++c)
        ASSERT_TRUE(same_bits(y[r * y_stride + c], c < n ? expected[c] : 99.0f)) << r << "," << c;
    }
  }
}

TEST(MmaShapes, OnlyTheOutputsThatLeftTheProfileAreNotNumbers) {
  const std::size_t k = 300, n = 40, m = 7;
  const Matrix matrix = random_matrix(n, k, Dtype::f16, 1, Kind::ordinary);
  std::vector<std::uint8_t> stored = matrix.stored;
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(stored.data() + 1 + 2 * (17 * k + 299), &infinity, 2);
  const PackedWeights good(matrix.view()), bad({stored.data() + 1, Dtype::f16, n, k});
  std::vector<float> x = random_floats(m * k, 2);
  const std::vector<float> expected = run(Backend::scalar, good, x, m);
  x[2 * k + 5] = 65520;                                 // of f16, an infinity
  for (std::size_t row : {0, 3}) x[row * k + 299] = 0;  // beside the infinite weight
  const std::vector<float> with_zeros = run(Backend::scalar, good, x, m);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> y = run(backend, bad, x, m);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i / n == 2 || i % n == 17) {
        EXPECT_TRUE(std::isnan(y[i])) << name(backend) << " " << i / n << "," << i % n;
      } else {
        EXPECT_TRUE(same_bits(y[i], with_zeros[i])) << name(backend);
        EXPECT_FALSE(std::isnan(y[i]));
      }
    }
  }
  EXPECT_FALSE(std::isnan(expected[2 * n]));
}

TEST(MmaShapes, TheErrorAgainstF64IsBounded) {
  // Rounding two factors to bf16 and cutting: |error| <= (2^-8 + 17 * 2^-24 + ...) * sum |x w|.
  const std::size_t k = 2048, n = 32, m = 3;
  const Matrix matrix = random_matrix(n, k, Dtype::bf16, 11, Kind::ordinary);
  const std::vector<float> x = random_floats(m * k, 12);
  const std::vector<float> y = run(best_backend(), PackedWeights(matrix.view()), x, m);
  const double worst = worst_relative_error(matrix, x, y);
  EXPECT_LE(worst, 0x1p-8);
  EXPECT_GT(worst, 0);
}

TEST(Profiles, HaveNamesThatAreReadBack) {
  for (const Profile profile : {Profile::f32_k256, Profile::mma_hopper})
    EXPECT_EQ(parse_profile(name(profile)).value(), profile);
  EXPECT_EQ(name(Profile::mma_hopper), "mma-hopper/1");
  EXPECT_EQ(parse_profile("mma-ampere/1").error().code, Errc::invalid_input);
}

}  // namespace
}  // namespace verbatim::kernels::test
