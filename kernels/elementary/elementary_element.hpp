#pragma once
// exp, tanh, silu, GELU of one value: the steps of elementary_scalar.cpp as the GPU computes them.

#include "kernels/cuda/shared_text.hpp"
#include "kernels/elementary/detail.hpp"
#include "kernels/elementary/double_double.hpp"

namespace verbatim::kernels::element {

struct ReducedByLn2 {
  double r, power;  // x = k ln 2 + r, power = 2^k
};

VERBATIM_SHARED ReducedByLn2 reduce_by_ln2(double x) {
  const double rounded = rn::fma(x, detail::kLog2E, detail::kRounder);
  const double k = rn::sub(rounded, detail::kRounder);
  double r = rn::fma(-k, detail::kLn2Hi, x);
  r = rn::fma(-k, detail::kLn2Lo, r);
  return {r, f64_of((bits_of(rounded) + 1023) << 52)};
}

VERBATIM_SHARED float exp(float x) {
  if (x != x) return x;
  if (x < detail::kExpFlush) return 0;
  if (x > 89.0f) return f32_of(0x7f800000u);
  const ReducedByLn2 reduced = reduce_by_ln2(static_cast<double>(x));
  double p = detail::kExpSeries[0];
  for (int i = 1; i < 13; ++i) p = rn::fma(p, reduced.r, detail::kExpSeries[i]);
  return rn::to_f32(rn::mul(p, reduced.power));
}

VERBATIM_SHARED float tanh(float x) {
  if (x != x || x == 0) return x;
  const float magnitude = x < 0 ? -x : x;
  const double a = magnitude < 10.0f ? static_cast<double>(magnitude) : 10.0;
  const ReducedByLn2 reduced = reduce_by_ln2(rn::add(a, a));
  double p = detail::kExpm1Series[0];
  for (int i = 1; i < 13; ++i) p = rn::fma(p, reduced.r, detail::kExpm1Series[i]);
  const double q = rn::fma(rn::mul(reduced.r, reduced.r), p, reduced.r);
  const double t = rn::fma(reduced.power, q, rn::sub(reduced.power, 1.0));
  const double y = rn::div(t, rn::add(t, 2.0));
  const float low = rn::to_f32(rn::fma(y, -detail::kF64Error, y));
  const float high = rn::to_f32(rn::fma(y, detail::kF64Error, y));
  const float value = low == high ? low : dd::tanh_f32(magnitude);
  return x < 0 ? -value : value;
}

VERBATIM_SHARED float silu(float x) { return rn::div(x, rn::add(1.0f, exp(-x))); }

VERBATIM_SHARED float gelu_tanh(float x) {
  const float p = rn::fma(0.044715f, rn::mul(x, x), 1.0f);
  const float z = rn::mul(rn::mul(0.79788456f, x), p);
  return rn::mul(rn::mul(0.5f, x), rn::add(1.0f, tanh(z)));
}

VERBATIM_SHARED float softcap(float x, float cap) { return rn::mul(cap, tanh(rn::div(x, cap))); }

}  // namespace verbatim::kernels::element
