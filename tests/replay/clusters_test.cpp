// Answers to one question: which are equal, where they part, and how sure one may be of their share.

#include "replay/clusters.hpp"

#include "replay/proportion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace verbatim {
namespace {

using replay::AnswerText;
using replay::Clustering;

Clustering cluster(const std::vector<std::string>& texts) {
  std::vector<AnswerText> answers;
  for (const std::string& text : texts) answers.push_back({text, "stop", {}, "", ""});
  return replay::cluster_answers(answers);
}

TEST(Clusters, EqualAnswersAreOneClusterWithoutForks) {
  const Clustering result = cluster({"one", "one", "one"});
  ASSERT_EQ(result.clusters.size(), 1U);
  EXPECT_EQ(result.clusters[0].answers, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(result.clusters[0].sha256, sha256("one"));
  EXPECT_EQ(result.clusters[0].first_fork_char, std::nullopt);
  EXPECT_TRUE(result.forks.empty());
}

TEST(Clusters, NoAnswersMakeNoClusters) {
  EXPECT_TRUE(cluster({}).clusters.empty());
  EXPECT_TRUE(cluster({}).forks.empty());
}

TEST(Clusters, TheLargestIsFirstAndOfEqualOnesTheEarlier) {
  const Clustering result = cluster({"b", "a", "c", "c"});
  EXPECT_EQ(result.clusters[0].text, "c");
  EXPECT_EQ(result.clusters[1].text, "b");
  EXPECT_EQ(result.clusters[2].text, "a");
}

TEST(Clusters, AForkHasItsPositionAndBranches) {
  const Clustering result = cluster({"the cat sat", "the cat sat", "the cow sat"});
  ASSERT_EQ(result.forks.size(), 1U);
  const replay::Fork& fork = result.forks[0];
  EXPECT_EQ(fork.character, 5U);
  EXPECT_EQ(fork.count, 3U);
  EXPECT_EQ(fork.before, "the c");
  EXPECT_EQ(fork.branches[0].text, "at sat");
  EXPECT_EQ(fork.branches[0].count, 2U);
  EXPECT_EQ(fork.branches[1].text, "ow sat");
  EXPECT_EQ(fork.branches[1].clusters, std::vector<std::size_t>{1});
  EXPECT_EQ(result.clusters[1].first_fork_char, 5U);
}

TEST(Clusters, AnAnswerThatEndsWhereOthersGoOnIsABranchOfItsOwn) {
  const Clustering result = cluster({"yes", "yes, indeed"});
  ASSERT_EQ(result.forks.size(), 1U);
  EXPECT_EQ(result.forks[0].character, 3U);
  EXPECT_TRUE(result.forks[0].branches[0].ends);
  EXPECT_EQ(result.forks[0].branches[1].text, ", indeed");
}

TEST(Clusters, ForksAreNeverInsideACharacter) {
  // U+00E4 and U+00E5 begin with the same byte, U+1F600 and U+1F601 with the same three.
  const Clustering two = cluster({"\xC3\xA4", "\xC3\xA5"});
  EXPECT_EQ(two.forks[0].byte, 0U);
  const Clustering four = cluster({"\xC3\xBC\xF0\x9F\x98\x80!", "\xC3\xBC\xF0\x9F\x98\x81!"});
  EXPECT_EQ(four.forks[0].character, 1U);
  EXPECT_EQ(four.forks[0].byte, 2U);
  EXPECT_EQ(four.forks[0].branches[0].text, "\xF0\x9F\x98\x80!");
}

TEST(Clusters, ForksWithinBranchesFollowTheirParent) {
  const Clustering result = cluster({"ab1", "ab2", "ac", "ab1"});
  ASSERT_EQ(result.forks.size(), 2U);
  EXPECT_EQ(result.forks[0].character, 1U);
  EXPECT_EQ(result.forks[0].branches[0].text, "b");
  EXPECT_EQ(result.forks[0].branches[0].count, 3U);
  EXPECT_EQ(result.forks[1].character, 2U);
  EXPECT_EQ(result.forks[1].count, 3U);
}

TEST(Clusters, ATokenIsTheOneThatTheForkIsIn) {
  std::vector<AnswerText> answers = {{"the cat", "", {}, "", ""}, {"the cow", "", {}, "", ""}};
  answers[0].tokens = {{"the", -0.1, {}}, {" cat", -0.7, {{" cat", -0.7}, {" cow", -0.8}}}};
  const Clustering result = replay::cluster_answers(answers);
  const auto& token = result.forks[0].branches[0].token;
  ASSERT_TRUE(token);
  EXPECT_EQ(token->index, 1U);
  EXPECT_EQ(token->token.top[1].first, " cow");
  EXPECT_FALSE(result.forks[0].branches[1].token);
}

TEST(Clusters, AChainOfThousandsOfForksIsBounded) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 3000; ++i) texts.emplace_back(i, 'a');
  EXPECT_EQ(cluster(texts).forks.size(), 1000U);
}

TEST(Proportion, WilsonsIntervalAsPublished) {
  // Newcombe 1998, Statistics in Medicine 17:857, table I, method 3.
  const auto few = replay::wilson(15, 148);
  EXPECT_NEAR(few.low, 0.0624, 0.00005);
  EXPECT_NEAR(few.high, 0.1605, 0.00005);
  const auto none = replay::wilson(0, 20);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 0.00005);
  const auto one = replay::wilson(1, 29);
  EXPECT_NEAR(one.low, 0.0061, 0.00005);
  EXPECT_NEAR(one.high, 0.1718, 0.00005);
}

TEST(Proportion, TheIntervalOfAnAnswerSolvesItsEquations) {
  const auto all = replay::share_of_answer(30, 30);
  EXPECT_NEAR(all.low, std::pow(0.025, 1.0 / 29), 1e-9) << "p^30 = 0.025 p";
  EXPECT_EQ(all.high, 1);
  const auto one = replay::share_of_answer(1, 30);
  EXPECT_EQ(one.low, 0);
  EXPECT_NEAR(std::pow(1 - one.high, 30) + 30 * one.high * std::pow(1 - one.high, 29),
              0.025 * one.high, 1e-9);
  const auto two = replay::share_of_answer(2, 3);
  EXPECT_NEAR(3 * two.low * two.low * (1 - two.low) + std::pow(two.low, 3), 0.025 * two.low, 1e-9);
  EXPECT_NEAR(std::pow(two.high, 3), 1 - 0.025 * two.high, 1e-9);
  const auto never = replay::share_of_answer(0, 9);
  EXPECT_EQ(never.low, 0);
  EXPECT_NEAR(std::pow(1 - never.high, 9), 0.025 * never.high, 1e-9);
  const auto many = replay::share_of_answer(2, 100'000);
  EXPECT_GT(many.low, 0);
  EXPECT_LT(many.high, 0.001);
}

/// Shares that add up to 1, and where the answer that came is drawn from them.
struct Answers {
  const char* name;
  std::vector<double> shares;

  [[nodiscard]] std::size_t draw(std::mt19937_64& random) const {
    double left = static_cast<double>(random() >> 11) * 0x1p-53;
    for (std::size_t i = 0; i + 1 < shares.size(); ++i) {
      if (left < shares[i]) return i;
      left -= shares[i];
    }
    return shares.size() - 1;
  }
};

TEST(Proportion, TheIntervalOfTheMostFrequentAnswerHoldsItsShareHoweverAnswersVary) {
  std::vector<double> dominated(101, 0.001), falling;
  dominated[0] = 0.9;
  double sum = 0;
  for (int i = 1; i <= 50; ++i) sum += 1.0 / i;
  for (int i = 1; i <= 50; ++i) falling.push_back(1.0 / i / sum);
  const Answers endpoints[] = {{"all equal", {1}},
                               {"one of 2", std::vector<double>(2, 0.5)},
                               {"one of 6", std::vector<double>(6, 1.0 / 6)},
                               {"one of 100", std::vector<double>(100, 0.01)},
                               {"one of 3000", std::vector<double>(3000, 1.0 / 3000)},
                               {"90 % and another", {0.9, 0.1}},
                               {"90 % and 100 others", dominated},
                               {"falling", falling}};
  constexpr int kProbes = 2000;
  for (const Answers& endpoint : endpoints) {
    for (const std::size_t n : {5U, 30U, 100U}) {
      std::vector<replay::Proportion> intervals;
      for (std::size_t count = 0; count <= n; ++count) {
        intervals.push_back(replay::share_of_answer(count, n));
      }
      std::mt19937_64 random(n);
      int of_most = 0, of_picked = 0, wilsons = 0;
      for (int probe = 0; probe < kProbes; ++probe) {
        std::vector<std::size_t> counts(endpoint.shares.size());
        for (std::size_t i = 0; i < n; ++i) ++counts[endpoint.draw(random)];
        const auto picked = std::max_element(counts.begin(), counts.end());
        const replay::Proportion& found = intervals[*picked];
        const double share = endpoint.shares[static_cast<std::size_t>(picked - counts.begin())];
        const auto holds = [](const replay::Proportion& interval, double truth) {
          return interval.low <= truth && truth <= interval.high ? 1 : 0;
        };
        of_picked += holds(found, share);
        of_most += holds(found, endpoint.shares[0]);  // none has a greater one
        wilsons += holds(replay::wilson(*picked, n), share);
        ASSERT_LE(found.low, found.share);
        ASSERT_GE(found.high, found.share);
      }
      EXPECT_GE(of_picked, 0.95 * kProbes) << endpoint.name << ", n = " << n;
      EXPECT_GE(of_most, 0.95 * kProbes) << endpoint.name << ", n = " << n;
      const bool as_documented = endpoint.shares.size() == 100 && n == 30;
      EXPECT_TRUE(!as_documented || wilsons < 0.02 * kProbes) << wilsons;
    }
  }
}

TEST(Proportion, OfNoTrialsNothingIsKnown) {
  const auto nothing = replay::wilson(0, 0);
  EXPECT_EQ(nothing.low, 0);
  EXPECT_EQ(nothing.high, 1);
  EXPECT_EQ(replay::upper_limit(0, 0, 0.95), 1);
  EXPECT_EQ(replay::share_of_answer(0, 0).low, 0);
  EXPECT_EQ(replay::share_of_answer(0, 0).high, 1);
}

TEST(Proportion, TheExactUpperLimitSolvesItsEquation) {
  // With no success in n trials it is 1 - (1 - confidence)^(1/n): the rule of three.
  EXPECT_NEAR(replay::upper_limit(0, 100, 0.95), 1 - std::pow(0.05, 0.01), 1e-9);
  // One in 10: (1-p)^10 + 10 p (1-p)^9 = 0.05.
  const double p = replay::upper_limit(1, 10, 0.95);
  EXPECT_NEAR(std::pow(1 - p, 10) + 10 * p * std::pow(1 - p, 9), 0.05, 1e-9);
  EXPECT_EQ(replay::upper_limit(10, 10, 0.95), 1);
}

}  // namespace
}  // namespace verbatim
