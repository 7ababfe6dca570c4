#pragma once
// exp, log, tanh, silu, GELU, soft-cap of one value on the GPU: the steps of elementary_scalar.cpp, which says why they are
// correctly rounded.

#include "kernels/cuda/rounded.cuh"
#include "kernels/elementary/detail.hpp"
#include "kernels/elementary/double_double.hpp"

namespace verbatim::kernels::cuda {

struct ReducedByLn2 {
  double r, power;  // x = k ln 2 + r, power = 2^k
};

__device__ inline ReducedByLn2 reduce_by_ln2(double x) {
  const double rounded = rn::fma(x, detail::kLog2E, detail::kRounder);
  const double k = rn::sub(rounded, detail::kRounder);
  double r = rn::fma(-k, detail::kLn2Hi, x);
  r = rn::fma(-k, detail::kLn2Lo, r);
  return {r, f64_of((bits_of(rounded) + 1023) << 52)};
}

__device__ inline float exp(float x) {
  if (x != x) return x;
  if (x < detail::kExpFlush) return 0;
  if (x > 89.0f) return infinity();
  const ReducedByLn2 reduced = reduce_by_ln2(static_cast<double>(x));
  double p = detail::kExpSeries[0];
  for (int i = 1; i < 13; ++i) p = rn::fma(p, reduced.r, detail::kExpSeries[i]);
  return rn::to_f32(rn::mul(p, reduced.power));
}

// Seldom needed, and long: called, not copied into every kernel.
[[maybe_unused]] VERBATIM_NOT_INLINED static __device__ float log_exact(float x) {
  return dd::to_f32(dd::log(static_cast<double>(x)));
}
[[maybe_unused]] VERBATIM_NOT_INLINED static __device__ float tanh_exact(float x) {
  return dd::tanh_f32(x);
}

/// False where the f64 value is too near the middle between two floats to say which is nearest.
__device__ inline bool decided(double y, float& out) {
  out = rn::to_f32(rn::fma(y, -detail::kF64Error, y));
  return out == rn::to_f32(rn::fma(y, detail::kF64Error, y));
}

__device__ inline float log(float x) {
  if (x == 0) return -infinity();
  if (x < 0) return f32_of(0x7fc00000u);
  if (x == 1) return 0;
  if (!finite(x)) return x;
  // x = m 2^e, m in [sqrt(1/2), sqrt(2)).
  const std::uint64_t bits = kernels::bits_of(static_cast<double>(x));
  const std::uint64_t from = bits - kernels::bits_of(detail::kHalfSqrt2);
  const std::int64_t exponent = static_cast<std::int64_t>(from) >> 52;
  const double m = f64_of(bits - (static_cast<std::uint64_t>(exponent) << 52));
  const double e = static_cast<double>(exponent);
  const double s = rn::div(rn::sub(m, 1.0), rn::add(m, 1.0));
  const double s2 = rn::mul(s, s);
  double p = detail::kAtanhSeries[0];
  for (int i = 1; i < 11; ++i) p = rn::fma(p, s2, detail::kAtanhSeries[i]);
  const double twice = rn::add(s, s);
  const double log_m = rn::fma(rn::mul(twice, s2), p, twice);
  const double y = rn::fma(e, detail::kLn2Hi, rn::fma(e, detail::kLn2Lo, log_m));
  float out;
  return decided(y, out) ? out : log_exact(x);
}

__device__ inline float tanh(float x) {
  if (x != x || x == 0) return x;
  const float magnitude = x < 0 ? -x : x;
  const double a = magnitude < 10.0f ? static_cast<double>(magnitude) : 10.0;
  const ReducedByLn2 reduced = reduce_by_ln2(rn::add(a, a));
  double p = detail::kExpm1Series[0];
  for (int i = 1; i < 13; ++i) p = rn::fma(p, reduced.r, detail::kExpm1Series[i]);
  const double q = rn::fma(rn::mul(reduced.r, reduced.r), p, reduced.r);
  const double t = rn::fma(reduced.power, q, rn::sub(reduced.power, 1.0));
  const double y = rn::div(t, rn::add(t, 2.0));
  float near;
  const float value = decided(y, near) ? near : tanh_exact(magnitude);
  return x < 0 ? -value : value;
}

__device__ inline float silu(float x) { return rn::div(x, rn::add(1.0f, exp(-x))); }

__device__ inline float gelu_tanh(float x) {
  const float p = rn::fma(0.044715f, rn::mul(x, x), 1.0f);
  const float z = rn::mul(rn::mul(0.79788456f, x), p);
  return rn::mul(rn::mul(0.5f, x), rn::add(1.0f, tanh(z)));
}

__device__ inline float softcap(float x, float cap) { return rn::mul(cap, tanh(rn::div(x, cap))); }

}  // namespace verbatim::kernels::cuda
