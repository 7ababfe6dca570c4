#pragma once
// How sure one may be of a share that was seen in a few trials.

#include <cstddef>

namespace verbatim::replay {

/// A share with its 95 % confidence interval.
struct Proportion {
  std::size_t count = 0, of = 0;
  double share = 0, low = 0, high = 1;
};

/// Wilson's score interval (Wilson 1927), 95 %: near its nominal level also for few trials and shares near 0 or 1.
/// Of no trials: share 0 in [0, 1].
[[nodiscard]] Proportion wilson(std::size_t count, std::size_t of);

/// The exact upper limit of Clopper and Pearson (1934), one-sided: with probability `confidence` the true share is
/// at most this. 1 when count == of.
[[nodiscard]] double upper_limit(std::size_t count, std::size_t of, double confidence);

}  // namespace verbatim::replay
