#pragma once
// Do two sets of answers come from the same distribution? For endpoints of which nothing but answers is seen.
//
// Model equality testing (Gao, Liang and Guestrin 2024, arXiv 2410.20247): the maximum mean discrepancy with a Hamming
// kernel, and a permutation test. A text is a sequence of characters (Unicode code points), cut or filled up with ends to
// `length`; k(x, y) is the share of places where two texts have the same. Where a text of a group is longer than what is
// compared by character, whole texts count as much: k(x, y) is then the mean of that share and of 1 where x = y, 0
// elsewhere. With a and b the empirical distributions,
//
//   MMD^2 = E k(x, x') - 2 E k(x, y) + E k(y, y')     x, x' of a; y, y' of b; pairs with themselves included
//
// Groups (a question under a load) are compared each with itself; the statistic is the mean over the groups, and answers
// are permuted within theirs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::replay {

/// The answers to one question, before and now. UTF-8.
struct SampleGroup {
  std::vector<std::string> before, now;
};

struct TwoSampleOptions {
  std::size_t permutations = 9999;
  std::uint64_t seed = 1;
  std::size_t characters_max = 1000;  ///< of each text, compared one by one
};

struct TwoSampleResult {
  double mmd2 = 0;  ///< 0 for equal empirical distributions, at most 2
  /// (1 + permutations at least as far apart) / (1 + permutations): if both sides come from one distribution, this is at
  /// most p with a probability of at most p, whatever the distribution is. Ties count as at least as far.
  double p_value = 1;
  std::size_t before = 0, now = 0;  ///< answers that were compared
};

/// Groups with an empty side are left out; of none, p is 1. Depends on nothing but its arguments: same seed, same p.
/// Takes time and memory in the square of the number of different answers of a group.
[[nodiscard]] TwoSampleResult two_sample_test(const std::vector<SampleGroup>& groups,
                                              const TwoSampleOptions& options);

}  // namespace verbatim::replay
