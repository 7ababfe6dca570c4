#pragma once
// Double-double arithmetic: an unevaluated sum of two f64, about 105 bits. For the few values where f64 cannot decide
// how to round to f32, and for tables made once. Not for files compiled for one instruction set (it is not inlined).

#include "kernels/cuda/shared_text.hpp"

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
VERBATIM_SHARED Dd quick_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
/// Exact (Knuth).
VERBATIM_SHARED Dd two_sum(double a, double b) {
  const double s = a + b;
  const double b_part = s - a;
  return {s, (a - (s - b_part)) + (b - b_part)};
}
/// Exact, barring underflow.
VERBATIM_SHARED Dd two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

VERBATIM_SHARED Dd operator-(Dd a) { return {-a.hi, -a.lo}; }
VERBATIM_SHARED Dd operator+(Dd a, Dd b) {
  Dd s = two_sum(a.hi, b.hi);
  const Dd t = two_sum(a.lo, b.lo);
  s = quick_two_sum(s.hi, s.lo + t.hi);
  return quick_two_sum(s.hi, s.lo + t.lo);
}
VERBATIM_SHARED Dd operator-(Dd a, Dd b) { return a + -b; }
VERBATIM_SHARED Dd operator*(Dd a, Dd b) {
  const Dd p = two_product(a.hi, b.hi);
  return quick_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
VERBATIM_SHARED Dd operator*(Dd a, double b) { return a * Dd{b, 0}; }
VERBATIM_SHARED Dd operator/(Dd a, Dd b) {
  const double q1 = a.hi / b.hi;
  Dd rest = a - b * q1;
  const double q2 = rest.hi / b.hi;
  rest = rest - b * q2;
  const double q3 = rest.hi / b.hi;
  return quick_two_sum(q1, q2) + Dd{q3, 0};
}
/// a * 2^n, exact while it stays normal.
VERBATIM_SHARED Dd scaled(Dd a, int n) { return {std::ldexp(a.hi, n), std::ldexp(a.lo, n)}; }

/// The f32 nearest to a.hi + a.lo, ties to even. Rounds the sum to odd first, so that the second rounding is right.
VERBATIM_SHARED float to_f32(Dd a) {
  auto bits = bits_of(a.hi);
  if (a.lo != 0 && (bits & 1) == 0) {
    bits = (a.lo > 0) == (a.hi > 0) ? bits + 1 : bits - 1;
  }
  return static_cast<float>(f64_of(bits));
}

/// a - n (c0 + c1 + c2) for an integer n: the first product is exact, and cancels.
VERBATIM_SHARED Dd minus_multiple(Dd a, double n, double c0, double c1, double c2) {
  const Dd first = a - two_product(n, c0);
  const Dd second = first - two_product(n, c1);
  return second - Dd{n * c2, 0};
}

/// e^x for |x| < 700; relative error below 2^-95.
VERBATIM_SHARED Dd exp(Dd x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const double n = std::rint(x.hi / kLn2);
  // |r| < 0.022.
  const Dd r =
      scaled(minus_multiple(x, n, kLn2, 0x1.abc9e3b39803fp-56, 0x1.7b57a079a1934p-111), -4);

  // q = e^r - 1 by its series: the term after the last is below 2^-140.
  Dd q{0, 0};
  for (int i = 17; i >= 1; --i) {
    q = (r + r * q) / Dd{static_cast<double>(i), 0};
  }
  for (int i = 0; i < 4; ++i) q = q + q + q * q;  // (1 + q)^2 - 1
  return scaled(Dd{1, 0} + q, static_cast<int>(n));
}
/// Hyperbolic tangent of a finite x other than 0, correctly rounded.
VERBATIM_SHARED float tanh_f32(float x) {
  const double a = std::fabs(static_cast<double>(x));
  Dd y;
  if (a < 0.5) {
    // sinh / cosh by their series: (e^2a - 1) would lose bits.
    const Dd a2 = two_product(a, a);
    Dd s{1, 0}, c{1, 0};
    for (int i = 27; i >= 3; i -= 2) {
      s = Dd{1, 0} + a2 * s / Dd{static_cast<double>(i * (i - 1)), 0};
      c = Dd{1, 0} + a2 * c / Dd{static_cast<double>((i - 1) * (i - 2)), 0};
    }
    y = s * a / c;
  } else {
    const Dd e = exp(Dd{2 * (a < 10 ? a : 10), 0});
    y = (e - Dd{1, 0}) / (e + Dd{1, 0});
  }
  return x < 0 ? -to_f32(y) : to_f32(y);
}

/// Natural logarithm of a positive, normal x; absolute error below 2^-97.
VERBATIM_SHARED Dd log(double x) {
  // ln 2 as a sum of three f64.
  constexpr double kLn2[3] = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1.7b57a079a1934p-111};
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    --exponent;
  }
  // A first value by the series of 2 atanh(s), then one Newton step: log m = y + log(m e^-y).
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int i = 23; i >= 1; i -= 2) series = series * s2 + 1.0 / i;
  const double y = 2 * s * series;
  const Dd d = exp(Dd{-y, 0}) * m - Dd{1, 0};  // about 2^-52
  const Dd log_m = Dd{y, 0} + (d - scaled(d * d, -1));
  const double n = exponent;
  return two_product(n, kLn2[0]) + (two_product(n, kLn2[1]) + log_m);
}
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
