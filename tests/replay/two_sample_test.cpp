#include "replay/two_sample.hpp"

#include <gtest/gtest.h>

#include <random>

namespace verbatim::replay {
namespace {

using Texts = std::vector<std::string>;

TwoSampleResult compare(const Texts& before, const Texts& now, TwoSampleOptions options = {}) {
  return two_sample_test({{before, now}}, options);
}

TEST(TwoSample, EqualAnswersAreNoEvidenceOfAnything) {
  const TwoSampleResult result = compare(Texts(30, "same"), Texts(20, "same"));
  EXPECT_EQ(result.mmd2, 0);
  EXPECT_EQ(result.p_value, 1);
  EXPECT_EQ(result.before, 30U);
  EXPECT_EQ(result.now, 20U);
}

TEST(TwoSample, TheStatisticIsThatOfTheHammingKernel) {
  // k("aa", "ab") = 1/2, so MMD^2 = 1 - 2 * 1/2 + 1.
  EXPECT_DOUBLE_EQ(compare({"aa"}, {"ab"}).mmd2, 1);
  // Nothing in common: 1 - 0 + 1.
  EXPECT_DOUBLE_EQ(compare({"aa"}, {"bb"}).mmd2, 2);
  // "a" is filled up with an end: one of four places agrees with "abcd"; of "a" and "b", the three ends.
  EXPECT_DOUBLE_EQ(compare({"abcd"}, {"a"}).mmd2, 2 - 2 * 0.25);
  EXPECT_DOUBLE_EQ(compare({"a", "abcd"}, {"b", "abcd"}).mmd2, (2 - 2 * 0.75) / 4);
  // Half of the answers moved: |d|^2 with d = (1/2, -1/2).
  EXPECT_DOUBLE_EQ(compare({"a", "b"}, {"b", "b"}).mmd2, 0.5);
}

TEST(TwoSample, CharactersAreCodePointsAndOnlyTheFirstCount) {
  // Two characters each, of which the second agrees: with bytes it would be one of three.
  EXPECT_DOUBLE_EQ(compare({"\xC3\xBC"
                            "x"},
                           {"\xC3\xB6"
                            "x"})
                       .mmd2,
                   1);
  TwoSampleOptions two;
  two.characters_max = 2;
  EXPECT_DOUBLE_EQ(compare({"aa"}, {"ab"}, two).mmd2, 1);
}

TEST(TwoSample, TextsThatAreLongerAreAlsoComparedAsAWhole) {
  TwoSampleOptions two;
  two.characters_max = 2;
  // The same two characters, and not the same text: k = (1 + 0) / 2.
  EXPECT_DOUBLE_EQ(compare({"aaX"}, {"aaY"}, two).mmd2, 1);
  EXPECT_DOUBLE_EQ(compare({"aaX"}, {"aa"}, two).mmd2, 1);
  EXPECT_DOUBLE_EQ(compare({"aaX"}, {"abX"}, two).mmd2, 2 - 2 * 0.25);
  EXPECT_DOUBLE_EQ(compare({"aaX"}, {"aaX"}, two).mmd2, 0);
  EXPECT_LE(compare(Texts(20, "aaX"), Texts(20, "aaY"), two).p_value, 0.0001);
  // Also where the beginning varies, then as now.
  Texts before, now;
  for (const char* beginning : {"a", "b", "c"}) {
    const std::string text = beginning + std::string(1500, '.');
    before.insert(before.end(), 10, text + "X");
    now.insert(now.end(), 10, text + "Y");
  }
  EXPECT_LE(compare(before, now).p_value, 0.001);
  EXPECT_EQ(compare(before, before).p_value, 1);
}

TEST(TwoSample, ThePValueIsThatOfAllPermutations) {
  // One of 3 + 3 is other: it is on this side in half of the ways, and both sides are equally far. p = 1.
  EXPECT_EQ(compare({"a", "a", "a"}, {"a", "a", "b"}).p_value, 1);
  // All of 3 + 3 parted: 2 of the 20 ways to part them are as far.
  TwoSampleOptions many;
  many.permutations = 100'000;
  EXPECT_NEAR(compare(Texts(3, "a"), Texts(3, "b"), many).p_value, 0.1, 0.004);
  // 3 of 30 other now, none before: hypergeometric, 2 * C(30,3) / C(60,3) = 0.2373.
  Texts now(27, "a");
  now.insert(now.end(), 3, "b");
  EXPECT_NEAR(compare(Texts(30, "a"), now, many).p_value, 2 * 4060.0 / 34220.0, 0.005);
}

TEST(TwoSample, AnotherModelIsToldApartAtTheSmallestPThereIs) {
  EXPECT_EQ(compare(Texts(30, "yes"), Texts(30, "no")).p_value, 1.0 / 10'000);
}

TEST(TwoSample, GroupsAreComparedEachWithItself) {
  // What differs between questions is no difference between now and before.
  const SampleGroup one{Texts(10, "a"), Texts(10, "a")}, other{Texts(10, "b"), Texts(10, "b")};
  EXPECT_EQ(two_sample_test({one, other}, {}).p_value, 1);
  // Small differences in many groups add up: 2 of 10 is as far in 90 of 190 ways, and 10 times that in 0.47^10.
  Texts now(8, "a");
  now.insert(now.end(), 2, "b");
  const SampleGroup slight{Texts(10, "a"), now};
  EXPECT_NEAR(two_sample_test({slight}, {}).p_value, 90.0 / 190, 0.03);
  EXPECT_LT(two_sample_test(std::vector<SampleGroup>(10, slight), {}).p_value, 0.005);
  // A group without answers on one side says nothing.
  EXPECT_EQ(two_sample_test({{{}, {"x"}}, {{"y"}, {}}}, {}).p_value, 1);
}

TEST(TwoSample, TheSameSeedGivesTheSameP) {
  const Texts before = {"a", "a", "b", "c"}, now = {"b", "b", "c", "c", "d"};
  const double p = compare(before, now).p_value;
  EXPECT_EQ(compare(before, now).p_value, p);
  TwoSampleOptions other;
  other.seed = 2;
  EXPECT_NEAR(compare(before, now, other).p_value, p, 0.03);
}

TEST(TwoSample, HonestRandomAnswersAreAlarmedAtNoMoreThanTheStatedRate) {
  // 400 comparisons of two samples of one distribution, at 0.05: binomial, mean at most 20, sd 4.4; 5 sd above is 42.
  std::mt19937_64 random(7);
  const auto draw = [&random] {
    Texts texts;
    for (int i = 0; i < 12; ++i) texts.push_back("answer " + std::to_string(random() % 6));
    return texts;
  };
  TwoSampleOptions options;
  options.permutations = 199;
  int alarms = 0;
  for (int i = 0; i < 400; ++i) {
    const Texts before = draw(), now = draw();
    alarms += compare(before, now, options).p_value <= 0.05 ? 1 : 0;
  }
  EXPECT_LE(alarms, 42);
  EXPECT_GE(alarms, 3);
}

}  // namespace
}  // namespace verbatim::replay
