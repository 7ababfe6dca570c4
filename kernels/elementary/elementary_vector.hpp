#pragma once
// The elementary functions on vectors: the same steps as elementary_scalar.cpp, lane by lane. V is avx2::V or avx512::V.

#include "kernels/elementary/detail.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbatim::kernels::detail {

/// e^r - or e^r - 1 - reduced: x = k ln 2 + r.
template <class V>
struct ReducedVector {
  typename V::D r, power;  // power = 2^k
};

template <class V>
[[gnu::always_inline]] static inline ReducedVector<V> reduce_by_ln2(typename V::D x) {
  const auto rounded = V::fmad(x, V::set1d(kLog2E), V::set1d(kRounder));
  const auto k = V::subd(rounded, V::set1d(kRounder));
  const auto minus_k = V::subd(V::set1d(0.0), k);
  auto r = V::fmad(minus_k, V::set1d(kLn2Hi), x);
  r = V::fmad(minus_k, V::set1d(kLn2Lo), r);
  const auto power =
      V::from_bits(V::template shift_left<52>(V::addi(V::bits(rounded), V::set1i(1023))));
  return {r, power};
}

template <class V, std::size_t n>
[[gnu::always_inline]] static inline typename V::D horner(const double (&c)[n], typename V::D x) {
  auto p = V::set1d(c[0]);
  for (std::size_t i = 1; i < n; ++i) p = V::fmad(p, x, V::set1d(c[i]));
  return p;
}

template <class V>
[[gnu::always_inline]] static inline typename V::D exp_half(typename V::D x) {
  const auto [r, power] = reduce_by_ln2<V>(x);
  return V::muld(horner<V>(kExpSeries, r), power);
}

template <class V>
[[gnu::always_inline]] static inline typename V::F exp(typename V::F x) {
  // Out of range, the lanes compute something harmless and are replaced afterwards.
  const auto safe = V::max(V::min(x, V::set1(89.0f)), V::set1(-88.0f));
  auto y = V::join(exp_half<V>(V::low(safe)), exp_half<V>(V::high(safe)));
  y = V::if_less(x, V::set1(kExpFlush), V::zero(), y);
  return V::if_nan(x, x, y);
}

/// The f32 of y where the rounding test decides it; elsewhere `exact` of the lane's x.
template <class V, class Exact>
[[gnu::always_inline]] static inline typename V::F round_tested(typename V::D y0, typename V::D y1,
                                                                typename V::F x, Exact exact) {
  const auto less = V::set1d(-kF64Error), more = V::set1d(kF64Error);
  const auto low = V::join(V::fmad(y0, less, y0), V::fmad(y1, less, y1));
  const auto high = V::join(V::fmad(y0, more, y0), V::fmad(y1, more, y1));
  if (__builtin_expect(V::differ(low, high) == 0, 1)) return low;
  // Lane by lane, and not by the bits of differ(): g++ 12 was seen to leave a 17th bit in a mask of 16.
  float lane[V::kLanes], other[V::kLanes], argument[V::kLanes];
  V::store(lane, low);
  V::store(other, high);
  V::store(argument, x);
  for (std::size_t i = 0; i < V::kLanes; ++i) {
    if (lane[i] == other[i]) continue;
    lane[i] = exact(argument[i]);
  }
  return V::load(lane);
}

template <class V>
[[gnu::always_inline]] static inline typename V::D log_half(typename V::D x) {
  const auto one = V::set1d(1.0);
  // x = m 2^e as in the scalar version; e is made non-negative for the logical shift, and read as an f64 through
  // the low bits of 2^52.
  const auto bits = V::bits(x);
  const auto from =
      V::subi(V::addi(bits, V::set1i(std::uint64_t{1023} << 52)), V::bits(V::set1d(kHalfSqrt2)));
  const auto biased = V::template shift_right<52>(from);
  const auto m =
      V::from_bits(V::subi(bits, V::template shift_left<52>(V::subi(biased, V::set1i(1023)))));
  const auto e =
      V::subd(V::from_bits(V::ori(biased, V::bits(V::set1d(0x1p52)))), V::set1d(0x1p52 + 1023));
  const auto s = V::divd(V::subd(m, one), V::addd(m, one));
  const auto s2 = V::muld(s, s);
  const auto p = horner<V>(kAtanhSeries, s2);
  const auto twice = V::addd(s, s);
  const auto log_m = V::fmad(V::muld(twice, s2), p, twice);
  return V::fmad(e, V::set1d(kLn2Hi), V::fmad(e, V::set1d(kLn2Lo), log_m));
}

template <class V>
[[gnu::always_inline]] static inline typename V::F log(typename V::F x) {
  const auto infinity = V::set1(std::numeric_limits<float>::infinity());
  const auto one = V::set1(1.0f);
  // Zero, negative, infinite and NaN lanes compute log(1), and are replaced afterwards.
  auto safe = V::if_less(V::zero(), x, x, one);
  safe = V::if_less(safe, infinity, safe, one);
  auto y = round_tested<V>(log_half<V>(V::low(safe)), log_half<V>(V::high(safe)), safe,
                           [](float a) { return log_exact(a); });
  y = V::if_equal(x, V::zero(), V::negate(infinity), y);
  y = V::if_less(x, V::zero(), V::set1(std::numeric_limits<float>::quiet_NaN()), y);
  y = V::if_equal(x, infinity, infinity, y);
  return V::if_nan(x, x, y);
}

template <class V>
[[gnu::always_inline]] static inline typename V::D tanh_half(typename V::D a) {
  const auto [r, power] = reduce_by_ln2<V>(V::addd(a, a));
  const auto p = horner<V>(kExpm1Series, r);
  const auto q = V::fmad(V::muld(r, r), p, r);
  const auto t = V::fmad(power, q, V::subd(power, V::set1d(1.0)));
  return V::divd(t, V::addd(t, V::set1d(2.0)));
}

template <class V>
[[gnu::always_inline]] static inline typename V::F tanh(typename V::F x) {
  const auto magnitude = V::abs(x);
  const auto a = V::min(magnitude, V::set1(10.0f));  // 10 where x is NaN
  auto y = round_tested<V>(tanh_half<V>(V::low(a)), tanh_half<V>(V::high(a)), a,
                           [](float b) { return tanh_exact(b); });
  y = V::with_sign_of(y, x);
  return V::if_nan(x, x, y);
}

template <class V>
[[gnu::always_inline]] static inline typename V::F silu(typename V::F x) {
  return V::div(x, V::add(V::set1(1.0f), exp<V>(V::negate(x))));
}

template <class V>
[[gnu::always_inline]] static inline typename V::F gelu_tanh(typename V::F x) {
  const auto one = V::set1(1.0f);
  const auto u = V::mul(x, x);
  const auto p = V::fma(V::set1(0.044715f), u, one);
  const auto z = V::mul(V::mul(V::set1(0.79788456f), x), p);
  return V::mul(V::mul(V::set1(0.5f), x), V::add(one, tanh<V>(z)));
}

/// out[i] = f(in[i]), `f` on vectors. The lanes past the end see zeros.
template <class V, class F>
[[gnu::always_inline]] static inline void map(const float* in, std::size_t count, float* out, F f) {
  std::size_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) V::store(out + i, f(V::load(in + i)));
  if (i < count) V::store_first(out + i, count - i, f(V::load_first(in + i, count - i)));
}

template <class V>
[[gnu::always_inline]] static inline void apply(Function f, const float* in, std::size_t count,
                                                float* out) {
  using F = typename V::F;
  switch (f) {
    case Function::exp:
      return map<V>(
          in, count, out, [](F x) __attribute__((always_inline)) { return exp<V>(x); });
    case Function::log:
      return map<V>(
          in, count, out, [](F x) __attribute__((always_inline)) { return log<V>(x); });
    case Function::tanh:
      return map<V>(
          in, count, out, [](F x) __attribute__((always_inline)) { return tanh<V>(x); });
    case Function::silu:
      return map<V>(
          in, count, out, [](F x) __attribute__((always_inline)) { return silu<V>(x); });
    case Function::gelu_tanh:
      return map<V>(
          in, count, out, [](F x) __attribute__((always_inline)) { return gelu_tanh<V>(x); });
  }
}

}  // namespace verbatim::kernels::detail
