#pragma once
// Double-double arithmetic: an unevaluated sum of two f64, about 105 bits. For the few values where f64 cannot decide
// how to round to f32, and for tables made once. Not for files compiled for one instruction set (it is not inlined).

#include <bit>
#include <cmath>
#include <cstdint>

namespace verbatim::kernels::dd {

/// hi is the f64 nearest to hi + lo.
struct Dd {
  double hi = 0;
  double lo = 0;
};

/// Exact, for |a| >= |b| or a = 0 (Dekker 1971).
inline Dd quick_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
/// Exact (Knuth).
inline Dd two_sum(double a, double b) {
  const double s = a + b;
  const double b_part = s - a;
  return {s, (a - (s - b_part)) + (b - b_part)};
}
/// Exact, barring underflow.
inline Dd two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

inline Dd operator-(Dd a) { return {-a.hi, -a.lo}; }
inline Dd operator+(Dd a, Dd b) {
  Dd s = two_sum(a.hi, b.hi);
  const Dd t = two_sum(a.lo, b.lo);
  s = quick_two_sum(s.hi, s.lo + t.hi);
  return quick_two_sum(s.hi, s.lo + t.lo);
}
inline Dd operator-(Dd a, Dd b) { return a + -b; }
inline Dd operator*(Dd a, Dd b) {
  const Dd p = two_product(a.hi, b.hi);
  return quick_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Dd operator*(Dd a, double b) { return a * Dd{b, 0}; }
inline Dd operator/(Dd a, Dd b) {
  const double q1 = a.hi / b.hi;
  Dd rest = a - b * q1;
  const double q2 = rest.hi / b.hi;
  rest = rest - b * q2;
  const double q3 = rest.hi / b.hi;
  return quick_two_sum(q1, q2) + Dd{q3, 0};
}
/// a * 2^n, exact while it stays normal.
inline Dd scaled(Dd a, int n) { return {std::ldexp(a.hi, n), std::ldexp(a.lo, n)}; }

/// The f32 nearest to a.hi + a.lo, ties to even. Rounds the sum to odd first, so that the second rounding is right.
inline float to_f32(Dd a) {
  auto bits = std::bit_cast<std::uint64_t>(a.hi);
  if (a.lo != 0 && (bits & 1) == 0) {
    bits = (a.lo > 0) == (a.hi > 0) ? bits + 1 : bits - 1;
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

/// e^x for |x| < 700; relative error below 2^-95.
Dd exp(Dd x);
/// Natural logarithm of a positive, normal x; absolute error below 2^-97.
Dd log(double x);
/// Sine and cosine of |r| <= 0.8; relative error below 2^-95.
struct SinCos {
  Dd sin, cos;
};
SinCos sin_cos(Dd r);
/// angle - quadrant * pi/2 with the result in about [-pi/4, pi/4], for 0 <= angle < 2^30. Absolute error below 2^-105.
struct Reduced {
  Dd r;
  int quadrant = 0;  ///< modulo 4
};
Reduced reduce_by_half_pi(double angle);

}  // namespace verbatim::kernels::dd
