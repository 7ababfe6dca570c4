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

/// The same for the share of one answer among many, which the trials themselves pointed out, such as their most frequent
/// one: also then the interval holds the true share with a probability of at least 95 %, whatever the answers are, how many
/// different ones there are, and how few trials.
///
/// It is that of Clopper and Pearson (1934) with a weighted Bonferroni correction (Rosenthal and Rubin 1983). An interval
/// for an answer of share p has 5 % times p of error, half of it at each side: p is in it if both P(X >= count) and
/// P(X <= count) are above 0.025 p, X binomial(of, p). Shares add up to 1, so the intervals of all answers together have
/// at most 5 %, and it does not matter which of them is looked at. The upper bound of the most frequent answer seen is
/// also one of the most frequent there is, of which no more were seen. Of no trials: share 0 in [0, 1].
[[nodiscard]] Proportion share_of_answer(std::size_t count, std::size_t of);

/// The exact upper limit of Clopper and Pearson (1934), one-sided: with probability `confidence` the true share is
/// at most this. 1 when count == of.
[[nodiscard]] double upper_limit(std::size_t count, std::size_t of, double confidence);

}  // namespace verbatim::replay
