#include "kernels/elementary/double_double.hpp"

namespace verbatim::kernels::dd {

namespace {

// pi/2 as a sum of three f64.
constexpr double kHalfPi[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                               -0x1.f1976b7ed8fbcp-110};

}  // namespace

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
