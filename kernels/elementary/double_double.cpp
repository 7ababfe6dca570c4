#include "kernels/elementary/double_double.hpp"

namespace verbatim::kernels::dd {

namespace {

// ln 2 and pi/2 as sums of three f64.
constexpr double kLn2[3] = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1.7b57a079a1934p-111};
constexpr double kHalfPi[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                               -0x1.f1976b7ed8fbcp-110};

}  // namespace

Dd log(double x) {
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

SinCos sin_cos(Dd r) {
  const Dd r2 = r * r;
  // Series by Horner: 1 - r2/(2*3) (1 - r2/(4*5) (...)); 30 factors reach 2^-120 at 0.8.
  Dd s{1, 0}, c{1, 0};
  for (int i = 29; i >= 3; i -= 2) {
    const double a = i * (i - 1), b = (i - 1) * (i - 2);
    s = Dd{1, 0} - r2 * s / Dd{a, 0};
    c = Dd{1, 0} - r2 * c / Dd{b, 0};
  }
  return {r * s, c};
}

Reduced reduce_by_half_pi(double angle) {
  const double n = std::rint(angle / kHalfPi[0]);
  return {minus_multiple(Dd{angle, 0}, n, kHalfPi[0], kHalfPi[1], kHalfPi[2]),
          static_cast<int>(std::fmod(n, 4))};
}

}  // namespace verbatim::kernels::dd
