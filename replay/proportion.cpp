#include "replay/proportion.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::replay {

namespace {

constexpr double kZ95 = 1.959963984540054;  // two-sided 95 % of the normal distribution

enum class Tail { at_most, at_least };

/// P(X <= count) or P(X >= count) for X binomial(of, p), 0 < p < 1, where that is the tail on the other side of the mean.
/// Summed from the logarithms of its terms, which fall from `count` outwards.
double binomial_tail(Tail tail, std::size_t count, std::size_t of, double p) {
  const auto n = static_cast<double>(of);
  const double all = std::lgamma(n + 1), yes = std::log(p), no = std::log1p(-p);
  double sum = 0;
  for (std::size_t i = count;; tail == Tail::at_least ? ++i : --i) {
    const auto k = static_cast<double>(i);
    const double term =
        std::exp(all - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * yes + (n - k) * no);
    sum += term;
    if (i == (tail == Tail::at_least ? of : 0) || term < sum * 1e-18) return sum;
  }
}

/// Where between two places a condition that holds at `yes`, and not at `no`, ends: still on the side where it holds.
template <class Condition>
double boundary(double yes, double no, Condition condition) {
  for (int i = 0; i < 60; ++i) {
    const double middle = (yes + no) / 2;
    (condition(middle) ? yes : no) = middle;
  }
  return yes;
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

Proportion share_of_answer(std::size_t count, std::size_t of) {
  constexpr double kErrorEachSide = 0.025;
  Proportion result;
  result.count = count;
  result.of = of;
  if (of == 0) return result;
  result.share = static_cast<double>(count) / static_cast<double>(of);
  // Below the share that was seen so many are too many, up to some p; above it so few are too few, from some p on.
  if (count > 1) {  // each of the rarest answers may be seen once
    result.low = boundary(0, result.share, [&](double p) {
      return binomial_tail(Tail::at_least, count, of, p) <= kErrorEachSide * p;
    });
  }
  if (count < of) {
    result.high = boundary(1, result.share, [&](double p) {
      return binomial_tail(Tail::at_most, count, of, p) <= kErrorEachSide * p;
    });
  }
  return result;
}

double upper_limit(std::size_t count, std::size_t of, double confidence) {
  if (count >= of) return 1;
  const double share = static_cast<double>(count) / static_cast<double>(of);
  // The cumulative probability falls as p grows.
  return boundary(1, share, [&](double p) {
    return binomial_tail(Tail::at_most, count, of, p) <= 1 - confidence;
  });
}

}  // namespace verbatim::replay
