// exp, log, tanh against MPFR; the vector versions against the scalar one. Every float: elementary_exhaustive.cpp.

#include "kernels/elementary/elementary.hpp"

#include "support.hpp"

#include <mpfr.h>

#include <limits>

namespace verbatim::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Exact = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);
using Scalar = float (*)(float);
using Array = void (*)(Backend, const float*, std::size_t, float*);

/// The exact function, rounded once to f32, subnormal results included.
float rounded(Exact function, float x) {
  mpfr_t wide, y;
  mpfr_init2(wide, 24);
  mpfr_init2(y, 24);
  const mpfr_exp_t low = mpfr_get_emin();
  const mpfr_exp_t high = mpfr_get_emax();
  mpfr_set_emin(-148);
  mpfr_set_emax(128);
  mpfr_set_flt(wide, x, MPFR_RNDN);
  const int inexact = function(y, wide, MPFR_RNDN);
  mpfr_subnormalize(y, inexact, MPFR_RNDN);
  const float result = mpfr_get_flt(y, MPFR_RNDN);
  mpfr_set_emin(low);
  mpfr_set_emax(high);
  mpfr_clear(wide);
  mpfr_clear(y);
  return result;
}

struct Function {
  const char* name;
  Scalar scalar;
  Array array;
  Exact exact;
};
const Function kFunctions[] = {{"exp", exp_f32, exp_f32, mpfr_exp},
                               {"log", log_f32, log_f32, mpfr_log},
                               {"tanh", tanh_f32, tanh_f32, mpfr_tanh}};

float expected(const Function& function, float x) {
  if (function.exact == mpfr_exp && x < -87.33654f) return 0;
  return rounded(function.exact, x);
}

std::vector<float> any_floats(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
  return x;
}

std::vector<float> run(const Function& function, Backend backend, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function.array(backend, x.data(), x.size(), y.data());
  return y;
}

void compare_with_mpfr(const Function& function, const std::vector<float>& x) {
  std::vector<float> right(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) right[i] = expected(function, x[i]);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> y = run(function, backend, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same_bits(y[i], right[i]))
          << function.name << " of " << std::hexfloat << x[i] << " on " << name(backend) << " is "
          << y[i] << ", not " << right[i];
    }
  }
}

TEST(Elementary, LogIsRightWhereF64ThenRoundingIsNot) {
  std::vector<float> x;
  for (const std::uint32_t bits :
       {0x3c413d3au, 0x41178febu, 0x4c5d65a5u, 0x65d890d3u, 0x6f31a8ecu}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  compare_with_mpfr(kFunctions[1], x);
}

TEST(Elementary, ValuesAtTheEdgesAreRight) {
  std::vector<float> x = {0.0f,      -0.0f,      1.0f,      -1.0f,
                          0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1.fffffep127f};
  // Neighbours of where exp flushes, overflows and reaches 1, of where tanh reaches 1 and x, and of 1 for log.
  for (const float edge :
       {-87.33654f, 88.722839f, 0x1p-25f, -0x1p-25f, 9.010913f, 0x1p-12f, 1.0f, 10.0f, 89.0f}) {
    float below = edge, above = edge;
    for (int i = 0; i < 50; ++i) {
      x.push_back(below);
      x.push_back(above);
      x.push_back(-below);
      below = std::nextafter(below, -kInfinity);
      above = std::nextafter(above, kInfinity);
    }
  }
  for (const Function& function : kFunctions) compare_with_mpfr(function, x);
}

TEST(Elementary, SpecialValuesAreAsTheContractSays) {
  EXPECT_EQ(bits_of(exp_f32(-kInfinity)), 0u);
  EXPECT_EQ(bits_of(exp_f32(-87.336548f)), 0u);
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(exp_f32(88.72284f), kInfinity);
  EXPECT_EQ(log_f32(0.0f), -kInfinity);
  EXPECT_EQ(log_f32(-0.0f), -kInfinity);
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  EXPECT_EQ(log_f32(kInfinity), kInfinity);
  EXPECT_EQ(bits_of(log_f32(1.0f)), 0u);
  EXPECT_EQ(bits_of(tanh_f32(-0.0f)), 0x80000000u);
  EXPECT_EQ(tanh_f32(-kInfinity), -1.0f);
  for (const Function& function : kFunctions) EXPECT_TRUE(std::isnan(function.scalar(kNan)));
}

TEST(Elementary, FourHundredThousandFloatsOfEachFunctionAreCorrectlyRounded) {
  const std::vector<float> x = any_floats(400'000, 1);
  for (const Function& function : kFunctions) {
    // Where the function is not constant: most of all floats are too small or too large to be interesting.
    std::vector<float> interesting;
    for (const float value : x) {
      const float scaled =
          function.exact == mpfr_log ? std::fabs(value) : std::remainder(value, 180.0f);
      if (!std::isnan(scaled)) interesting.push_back(scaled);
    }
    compare_with_mpfr(function, interesting);
  }
}

TEST(Elementary, VectorsOfEveryLengthAndAlignmentMatchScalars) {
  const std::vector<float> x = any_floats(300, 2);
  const Function all[] = {kFunctions[0],
                          kFunctions[1],
                          kFunctions[2],
                          {"silu", silu_f32, silu_f32, nullptr},
                          {"gelu_tanh", gelu_tanh_f32, gelu_tanh_f32, nullptr}};
  for (const Function& function : all) {
    std::vector<float> scalar(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) scalar[i] = function.scalar(x[i]);
    for (const Backend backend : supported_backends()) {
      for (std::size_t count = 0; count <= 40; ++count) {
        for (std::size_t offset = 0; offset < 17; ++offset) {
          std::vector<float> y(count + 1, 7.0f);
          function.array(backend, x.data() + offset, count, y.data());
          ASSERT_TRUE(
              same_bits(std::span(y).first(count), std::span(scalar).subspan(offset, count)))
              << function.name << " on " << name(backend);
          ASSERT_EQ(y[count], 7.0f) << "wrote past the end";
        }
      }
    }
  }
}

TEST(Elementary, SiluAndGeluMatchTheirFormulasOnEveryBackend) {
  for (const Kind kind : kKinds) {
    std::vector<float> x = random_floats(20'000, 3, kind);
    for (std::size_t i = 0; i < x.size() && kind == Kind::ordinary; ++i) x[i] *= 12;
    for (const Backend backend : supported_backends()) {
      std::vector<float> silu(x.size()), gelu(x.size());
      silu_f32(backend, x.data(), x.size(), silu.data());
      gelu_tanh_f32(backend, x.data(), x.size(), gelu.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float v = x[i];
        ASSERT_TRUE(same_bits(silu[i], v / (1.0f + exp_f32(-v)))) << v;
        const float p = std::fma(0.044715f, v * v, 1.0f);
        const float z = (0.79788456f * v) * p;
        ASSERT_TRUE(same_bits(gelu[i], (0.5f * v) * (1.0f + tanh_f32(z)))) << v;
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
