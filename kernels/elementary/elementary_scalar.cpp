// Why these are correctly rounded.
// exp: the f64 value is wrong by less than 2^-50, and no f32 argument has a result so near a tie that this matters:
//   shown by comparing every float with MPFR (tests/kernels/elementary_exhaustive.cpp).
// log, tanh: the f64 value y has a relative error below kF64Error. If y (1 - kF64Error) and y (1 + kF64Error)
//   round to the same f32, so does the exact value between them; else double-double arithmetic decides.

#include "kernels/elementary/detail.hpp"
#include "kernels/elementary/double_double.hpp"
#include "kernels/elementary/elementary.hpp"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {
namespace detail {

float log_exact(float x) { return dd::to_f32(dd::log(static_cast<double>(x))); }

float tanh_exact(float x) { return dd::tanh_f32(x); }

namespace {

// The bodies are inlined into a portable function, where fma is a call of the C library, and into one for processors
// that have the instruction: the same bits, ten times faster.
#define VERBATIM_BODY [[gnu::always_inline]] inline

VERBATIM_BODY double two_to(double rounded) {  // 2^k for rounded = k + kRounder
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(rounded) + 1023) << 52);
}

VERBATIM_BODY float exp_body(float x) {
  if (x != x) return x;
  if (x < kExpFlush) return 0;
  if (x > 89) return std::numeric_limits<float>::infinity();
  const double wide = x;
  const double rounded = __builtin_fma(wide, kLog2E, kRounder);
  const double k = rounded - kRounder;
  double r = __builtin_fma(-k, kLn2Hi, wide);
  r = __builtin_fma(-k, kLn2Lo, r);
  double p = kExpSeries[0];
  for (int i = 1; i < 13; ++i) p = __builtin_fma(p, r, kExpSeries[i]);
  return static_cast<float>(p * two_to(rounded));
}

VERBATIM_BODY bool decided(double y, float& out) {
  const auto low = static_cast<float>(__builtin_fma(y, -kF64Error, y));
  const auto high = static_cast<float>(__builtin_fma(y, kF64Error, y));
  out = low;
  return low == high;
}

VERBATIM_BODY float log_body(float x) {
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x <= std::numeric_limits<float>::max()) || x == 1) return x == 1 ? 0.0f : x;
  // x = m 2^e, m in [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(x));
  const auto from = bits - std::bit_cast<std::uint64_t>(kHalfSqrt2);
  const auto exponent = static_cast<std::int64_t>(from) >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  const auto e = static_cast<double>(exponent);
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double p = kAtanhSeries[0];
  for (int i = 1; i < 11; ++i) p = __builtin_fma(p, s2, kAtanhSeries[i]);
  const double twice = s + s;
  const double log_m = __builtin_fma(twice * s2, p, twice);
  const double y = __builtin_fma(e, kLn2Hi, __builtin_fma(e, kLn2Lo, log_m));
  float out;
  return decided(y, out) ? out : log_exact(x);
}

VERBATIM_BODY float tanh_body(float x) {
  if (x != x || x == 0) return x;
  const float magnitude = std::fabs(x);
  const double a = magnitude < 10 ? magnitude : 10;  // tanh(10) rounds to 1
  const double wide = a + a;
  const double rounded = __builtin_fma(wide, kLog2E, kRounder);
  const double k = rounded - kRounder;
  double r = __builtin_fma(-k, kLn2Hi, wide);
  r = __builtin_fma(-k, kLn2Lo, r);
  double p = kExpm1Series[0];
  for (int i = 1; i < 13; ++i) p = __builtin_fma(p, r, kExpm1Series[i]);
  const double q = __builtin_fma(r * r, p, r);  // e^r - 1
  const double scale = two_to(rounded);
  const double t = __builtin_fma(scale, q, scale - 1);  // e^2a - 1
  const double y = t / (t + 2);
  float out;
  return std::copysign(decided(y, out) ? out : tanh_exact(magnitude), x);
}

VERBATIM_BODY float silu_body(float x) { return x / (1.0f + exp_body(-x)); }

VERBATIM_BODY float gelu_tanh_body(float x) {
  const float u = x * x;
  const float p = __builtin_fmaf(0.044715f, u, 1.0f);
  const float z = (0.79788456f * x) * p;
  return (0.5f * x) * (1.0f + tanh_body(z));
}

VERBATIM_BODY float one(Function f, float x) {
  switch (f) {
    case Function::exp:
      return exp_body(x);
    case Function::log:
      return log_body(x);
    case Function::tanh:
      return tanh_body(x);
    case Function::silu:
      return silu_body(x);
    case Function::gelu_tanh:
      return gelu_tanh_body(x);
  }
  return 0;
}

float one_portable(Function f, float x) { return one(f, x); }
[[gnu::target("fma")]] float one_fma(Function f, float x) { return one(f, x); }

const bool kHasFma = __builtin_cpu_supports("fma");

float apply_one(Function f, float x) { return kHasFma ? one_fma(f, x) : one_portable(f, x); }

}  // namespace

void apply_scalar(Function f, const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = apply_one(f, in[i]);
}

void apply_portable(Function f, const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = one_portable(f, in[i]);
}

}  // namespace detail

float exp_f32(float x) { return detail::apply_one(detail::Function::exp, x); }
float log_f32(float x) { return detail::apply_one(detail::Function::log, x); }
float tanh_f32(float x) { return detail::apply_one(detail::Function::tanh, x); }
float silu_f32(float x) { return detail::apply_one(detail::Function::silu, x); }
float gelu_tanh_f32(float x) { return detail::apply_one(detail::Function::gelu_tanh, x); }

}  // namespace verbatim::kernels
