// RoPE: the tables against MPFR, the rotation against its formula.

#include "kernels/rope/rope.hpp"

#include "support.hpp"

#include <mpfr.h>

#include <algorithm>

namespace verbatim::kernels::test {
namespace {

/// A value of 300 bits that ends with its scope.
struct Wide {
  Wide() { mpfr_init2(value, 300); }
  ~Wide() { mpfr_clear(value); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  [[nodiscard]] float rounded() const { return mpfr_get_flt(value, MPFR_RNDN); }
  mpfr_t value;
};

float exact_inverse_frequency(double theta, std::size_t i, std::size_t dim) {
  Wide base, exponent;
  mpfr_set_d(base.value, theta, MPFR_RNDN);
  mpfr_set_d(exponent.value, -2.0 * static_cast<double>(i), MPFR_RNDN);
  mpfr_div_ui(exponent.value, exponent.value, dim, MPFR_RNDN);
  mpfr_pow(base.value, base.value, exponent.value, MPFR_RNDN);
  return base.rounded();
}

float exact_entry(std::size_t position, float inv, double factor, bool want_cos) {
  Wide angle;
  mpfr_set_ui(angle.value, position, MPFR_RNDN);
  mpfr_mul_d(angle.value, angle.value, static_cast<double>(inv), MPFR_RNDN);
  (want_cos ? mpfr_cos : mpfr_sin)(angle.value, angle.value, MPFR_RNDN);
  mpfr_mul_d(angle.value, angle.value, factor, MPFR_RNDN);
  return angle.rounded();
}

TEST(Rope, InverseFrequenciesAreCorrectlyRounded) {
  for (const double theta :
       {1.0, 2.0, 10000.0, 10000.5, 500000.0, 1e6, 1048576.0, 8e6, 1e11, 0x1p80}) {
    for (const std::size_t dim : {2, 6, 8, 64, 96, 128, 256}) {
      const std::vector<float> inv = rope_inverse_frequencies(theta, dim).value();
      ASSERT_EQ(inv.size(), dim / 2);
      for (std::size_t i = 0; i < inv.size(); ++i) {
        ASSERT_TRUE(same_bits(inv[i], exact_inverse_frequency(theta, i, dim)))
            << theta << " " << i << "/" << dim;
      }
    }
  }
}

TEST(Rope, BadParametersAreRefused) {
  EXPECT_FALSE(rope_inverse_frequencies(10000, 0));
  EXPECT_FALSE(rope_inverse_frequencies(10000, 7));
  EXPECT_FALSE(rope_inverse_frequencies(10000, 65538));
  for (const double theta : {0.0, -1.0, 0.5, 1e300, std::nan("")}) {
    EXPECT_FALSE(rope_inverse_frequencies(theta, 8)) << theta;
  }
  const float good[] = {1.0f}, bad[] = {1.5f}, zero[] = {0.0f};
  EXPECT_FALSE(RopeTable::make(bad, 4));
  EXPECT_FALSE(RopeTable::make(zero, 4));
  EXPECT_FALSE(RopeTable::make(good, (std::size_t{1} << 24) + 1));
  EXPECT_FALSE(RopeTable::make(good, 4, 0.0));
  EXPECT_FALSE(RopeTable::make(good, 4, std::nan("")));
  EXPECT_TRUE(RopeTable::make(good, 4));
}

void compare_table(const std::vector<float>& inv, std::size_t positions, double factor,
                   std::size_t step) {
  const RopeTable table = RopeTable::make(inv, positions, factor).value();
  for (std::size_t p = 0; p < positions; p += step) {
    for (std::size_t i = 0; i < inv.size(); ++i) {
      ASSERT_TRUE(same_bits(table.cos(p)[i], exact_entry(p, inv[i], factor, true)))
          << p << " " << inv[i];
      ASSERT_TRUE(same_bits(table.sin(p)[i], exact_entry(p, inv[i], factor, false)))
          << p << " " << inv[i];
    }
  }
}

TEST(Rope, TablesAreCorrectlyRounded) {
  compare_table(rope_inverse_frequencies(10000, 48).value(), 1000, 1, 1);
  compare_table(rope_inverse_frequencies(500000, 128).value(), 40000, 1, 997);
  compare_table(rope_inverse_frequencies(10000, 64).value(), 300, 1.2079441541679836, 1);
}

TEST(Rope, TheExactPathAloneGivesTheSameTable) {
  // Angles whose sine or cosine is so small, or so near a tie, that f64 cannot decide: multiples of pi/2 of f32 size.
  const std::vector<float> inv = {0x1.921fb6p-1f, 0x1.921fb4p-1f, 0x1.45f306p-2f, 0x1.921fb6p-20f,
                                  1.0f};
  compare_table(inv, 20000, 1, 7);
  const RopeTable far = RopeTable::make(std::vector<float>{1.0f}, 800'000).value();
  for (const std::size_t p :
       {355u, 710u, 103993u, 104348u, 208341u, 312689u, 573204u}) {  // near multiples of pi
    EXPECT_TRUE(same_bits(far.sin(p)[0], exact_entry(p, 1.0f, 1, false))) << p;
    EXPECT_TRUE(same_bits(far.cos(p)[0], exact_entry(p, 1.0f, 1, true))) << p;
  }
}

TEST(Rope, ATableDependsOnNothingButItsInputs) {
  const std::vector<float> inv = rope_inverse_frequencies(10000, 32).value();
  ThreadPool pool(4);
  const RopeTable one = RopeTable::make(inv, 500).value();
  const RopeTable two = RopeTable::make(inv, 500, 1, &pool).value();
  const RopeTable longer = RopeTable::make(inv, 700).value();
  EXPECT_EQ(one.sha256(), two.sha256());
  EXPECT_NE(one.sha256(), longer.sha256());
  EXPECT_TRUE(same_bits(std::span(one.cos(0), 500 * 16), std::span(longer.cos(0), 500 * 16)));
}

TEST(Rope, ScaledKindsChangeTheFrequenciesAsTheirFormulasSay) {
  const std::vector<float> inv = rope_inverse_frequencies(500000, 128).value();
  const std::vector<float> linear = rope_scale_linear(inv, 8);
  const std::vector<float> llama3 = rope_scale_llama3(inv, {8, 1, 4, 8192});
  std::size_t kept = 0, divided = 0, blended = 0;
  for (std::size_t i = 0; i < inv.size(); ++i) {
    EXPECT_EQ(linear[i], inv[i] / 8);  // exact: a power of two
    if (llama3[i] == inv[i]) {
      ++kept;
    } else if (llama3[i] == inv[i] / 8) {
      ++divided;
    } else {
      ++blended;
      EXPECT_LT(llama3[i], inv[i]);
      EXPECT_GT(llama3[i], inv[i] / 8);
    }
  }
  // Wavelengths 2 pi 500,000^(i/64): below 2,048 for i <= 28, beyond 8,192 for i >= 35.
  EXPECT_EQ(kept, 29u);
  EXPECT_EQ(divided, 29u);
  EXPECT_EQ(blended, 6u);
}

TEST(Rope, YarnKeepsFastFrequenciesDividesSlowOnesAndBlendsBetween) {
  // 128 ln(4096 / (2 pi 32)) / (2 ln 10000) = 20.94, down to 20; with 1 rotation 45.03, up to 46.
  const std::vector<float> inv = rope_inverse_frequencies(10000, 128).value();
  const std::vector<float> yarn =
      rope_scale_yarn(inv, {.factor = 16, .theta = 10000, .original_max_position = 4096});
  for (std::size_t i = 0; i < inv.size(); ++i) {
    const double f = static_cast<double>(inv[i]);
    const double ramp = std::clamp((static_cast<double>(i) - 20) / 26, 0.0, 1.0);
    EXPECT_TRUE(same_bits(yarn[i], static_cast<float>((f / 16) * ramp + f * (1 - ramp)))) << i;
  }
  EXPECT_EQ(yarn[20], inv[20]);
  EXPECT_EQ(yarn[46], inv[46] / 16);
  EXPECT_DOUBLE_EQ(rope_yarn_attention_factor(16), 1.2772588722239782);
  EXPECT_EQ(rope_yarn_attention_factor(1), 1);

  // Not truncated, the range's ends are where they fall; an empty range is a step at 45.03.
  RopeYarn exact{.factor = 16, .theta = 10000, .original_max_position = 4096, .truncate = false};
  EXPECT_EQ(rope_scale_yarn(inv, exact)[20], inv[20]);
  EXPECT_NE(rope_scale_yarn(inv, exact)[21], yarn[21]);
  exact.beta_fast = exact.beta_slow = 1;
  EXPECT_EQ(rope_scale_yarn(inv, exact)[45], inv[45]);
  EXPECT_EQ(rope_scale_yarn(inv, exact)[46], inv[46] / 16);
}

TEST(Rope, RotationMatchesItsFormulaForBothPairingsOnEveryBackend) {
  const std::size_t rows = 4, heads = 3, stride = 3 * 20 + 5;
  const std::vector<std::size_t> positions = {0, 3, 77, 99};
  for (const std::size_t rotated : {20u, 12u, 2u}) {  // all of the head, and parts of it
    const RopeTable table =
        RopeTable::make(rope_inverse_frequencies(10000, rotated).value(), 100).value();
    for (const Kind kind : kKinds) {
      const std::vector<float> x = random_floats(rows * stride, 1, kind);
      for (const RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) {
        std::vector<float> expected = x;
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t i = 0; i < rotated / 2; ++i) {
              const std::size_t base = r * stride + h * 20;
              const bool half = pairing == RopePairing::half_split;
              const std::size_t a = base + (half ? i : 2 * i),
                                b = base + (half ? i + rotated / 2 : 2 * i + 1);
              const float c = table.cos(positions[r])[i], s = table.sin(positions[r])[i];
              expected[a] = std::fma(x[a], c, -(x[b] * s));
              expected[b] = std::fma(x[a], s, x[b] * c);
            }
          }
        }
        for (const Backend backend : supported_backends()) {
          std::vector<float> y = x;
          rope_rotate(backend, table,
                      {rows, heads, 20, pairing, positions.data(), y.data(), stride});
          EXPECT_TRUE(same_bits(y, expected)) << name(backend) << " " << text(kind);
        }
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
