#include "replay/proportion.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::replay {

namespace {

constexpr double kZ95 = 1.959963984540054;  // two-sided 95 % of the normal distribution

/// P(X <= count) for X binomial(of, p), summed from the logarithms of its terms.
double binomial_cdf(std::size_t count, std::size_t of, double p) {
  double sum = 0;
  const auto n = static_cast<double>(of);
  for (std::size_t i = 0; i <= count; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                    k * std::log(p) + (n - k) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

}  // namespace

Proportion wilson(std::size_t count, std::size_t of) {
  Proportion result;
  result.count = count;
  result.of = of;
  if (of == 0) return result;
  const auto n = static_cast<double>(of);
  const double p = static_cast<double>(count) / n;
  const double z2 = kZ95 * kZ95;
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kZ95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  result.share = p;
  result.low = count == 0 ? 0 : std::max(0.0, centre - half);
  result.high = count == of ? 1 : std::min(1.0, centre + half);
  return result;
}

double upper_limit(std::size_t count, std::size_t of, double confidence) {
  if (count >= of) return 1;
  // The cumulative probability falls as p grows: bisect for where it is 1 - confidence.
  double low = static_cast<double>(count) / static_cast<double>(of);
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (binomial_cdf(count, of, middle) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

}  // namespace verbatim::replay
