// Choosing a token: the random function's published vectors, the noise, every filter against a slow rewriting.

#include "kernels/sampling/sampling.hpp"

#include "kernels/elementary/elementary.hpp"
#include "kernels/logits/logits.hpp"
#include "kernels/sampling/philox.hpp"
#include "support.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace verbatim::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Gumbel, NoiseIsFiniteAndOfTheRightMean) {
  double total = 0;
  float largest = -kInfinity, smallest = kInfinity;
  constexpr std::uint32_t kCount = 200'000;
  for (std::uint32_t token = 0; token < kCount; ++token) {
    const float g = gumbel_noise(42, 7, token, 0);
    ASSERT_TRUE(std::isfinite(g));
    total += static_cast<double>(g);
    largest = std::max(largest, g);
    smallest = std::min(smallest, g);
  }
  EXPECT_NEAR(total / kCount, 0.5772,
              0.015);           // Euler's constant; the deviation of the mean is 0.003
  EXPECT_LT(largest, 16.64f);   // -log(-log(1 - 2^-24))
  EXPECT_GT(smallest, -2.82f);  // -log(-log(2^-24))
}

TEST(Gumbel, EveryPartOfTheCounterAndKeyMatters) {
  const float g = gumbel_noise(1, 2, 3, 4);
  EXPECT_EQ(g, gumbel_noise(1, 2, 3, 4));
  EXPECT_NE(g, gumbel_noise(2, 2, 3, 4));
  EXPECT_NE(g, gumbel_noise(1 + (std::uint64_t{1} << 32), 2, 3, 4));
  EXPECT_NE(g, gumbel_noise(1, 3, 3, 4));
  EXPECT_NE(g, gumbel_noise(1, 2, 4, 4));
  EXPECT_NE(g, gumbel_noise(1, 2, 3, 5));
}

TEST(Gumbel, ManyTokensAtOnceGetTheNoiseOfEachAlone) {
  std::vector<std::int32_t> tokens(300);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(7 * i * i);
  for (const Backend backend : supported_backends()) {
    std::vector<float> noise(tokens.size());
    gumbel_noise(backend, 5, 6, tokens.data(), tokens.size(), 1, noise.data());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(
          same_bits(noise[i], gumbel_noise(5, 6, static_cast<std::uint32_t>(tokens[i]), 1)));
    }
  }
}

/// Section 7 written slowly: whole sorts, maps, no pruning. Returns (id, runner-up, scores by id).
struct Slow {
  std::int32_t id = -1, second = -1;
  std::map<std::int32_t, float> score;
};
Slow choose_slowly(std::span<const float> logits, const SamplerParams& p) {
  std::vector<float> x(logits.begin(), logits.end());
  for (const auto& [id, bias] : p.bias) x[static_cast<std::size_t>(id)] += static_cast<float>(bias);
  for (const TokenCount& seen : p.seen) {
    float& v = x[static_cast<std::size_t>(seen.id)];
    const auto r = static_cast<float>(p.repetition_penalty);
    if (seen.in_prompt + seen.in_output > 0) v = v > 0 ? v / r : v * r;
    v = v - static_cast<float>(p.frequency_penalty) * static_cast<float>(seen.in_output);
    v = v - (seen.in_output > 0 ? static_cast<float>(p.presence_penalty) : 0.0f);
  }
  const auto temperature = static_cast<float>(p.temperature);
  if (temperature != 0) {
    for (float& v : x) v = v / temperature;
  }
  std::vector<std::int32_t> order = top_ids(x, x.size());
  const auto value = [&](std::int32_t id) { return x[static_cast<std::size_t>(id)]; };
  if (temperature != 0) {
    if (p.top_k > 0 && p.top_k < order.size()) order.resize(p.top_k);
    const float m = value(order[0]);
    const auto e = [&](std::int32_t id) { return static_cast<double>(exp_f32(value(id) - m)); };
    std::erase_if(order, [&](std::int32_t id) { return e(id) < p.min_p; });
    if (p.top_p < 1) {
      double total = 0, reached = 0;
      std::vector<std::int32_t> ascending = order;
      std::sort(ascending.begin(), ascending.end());
      for (const std::int32_t id : ascending) total += e(id);
      std::size_t keep = 0;
      while (keep < order.size() && reached < p.top_p) reached += e(order[keep++]) / total;
      order.resize(std::max<std::size_t>(keep, 1));
    }
  }
  Slow result;
  for (const std::int32_t id : order) {
    result.score[id] = temperature == 0
                           ? value(id)
                           : value(id) + gumbel_noise(p.seed, p.position,
                                                      static_cast<std::uint32_t>(id), p.choice);
  }
  for (const auto& [id, score] : result.score) {
    if (result.id < 0 || score > result.score[result.id]) {
      result.second = result.id;
      result.id = id;
    } else if (result.second < 0 || score > result.score[result.second]) {
      result.second = id;
    }
  }
  return result;
}

std::vector<float> some_logits(std::size_t count, std::uint64_t seed) {
  std::vector<float> x = random_floats(count, seed);
  for (float& v : x) v = std::round(v * 40) / 4;  // ties
  return x;
}

void expect_as_slowly(std::span<const float> logits, const SamplerParams& params) {
  const Slow slow = choose_slowly(logits, params);
  const float unit = params.temperature == 0 ? 1.0f : static_cast<float>(params.temperature);
  for (const Backend backend : supported_backends()) {
    for (std::int32_t given = -1;
         given < static_cast<std::int32_t>(std::min<std::size_t>(logits.size(), 20)); ++given) {
      const TokenChoice choice = choose_token(backend, logits, params, given);
      ASSERT_EQ(choice.id, slow.id);
      ASSERT_EQ(choice.second, slow.second);
      const float best = slow.score.at(slow.id);
      ASSERT_EQ(choice.margin,
                slow.second < 0 ? kInfinity : (best - slow.score.at(slow.second)) * unit);
      if (given < 0) continue;
      const auto found = slow.score.find(given);
      ASSERT_EQ(choice.deficit,
                found == slow.score.end() ? kInfinity : (best - found->second) * unit);
    }
  }
}

TEST(Sampling, GreedyTakesTheLargestAndTheSmallestIdOnATie) {
  const std::vector<float> x = {0, 3, 1, 3};
  SamplerParams params;
  const TokenChoice choice = choose_token(Backend::scalar, x, params, 2);
  EXPECT_EQ(choice.id, 1);
  EXPECT_EQ(choice.second, 3);
  EXPECT_EQ(choice.margin, 0);
  EXPECT_EQ(choice.deficit, 2);
}

TEST(Sampling, FiltersHaveNoEffectOnGreedy) {
  const std::vector<float> x = some_logits(50, 1);
  SamplerParams plain, filtered;
  filtered.top_k = 1;
  filtered.top_p = 0.01;
  filtered.min_p = 0.9;
  const TokenChoice a = choose_token(Backend::scalar, x, plain, 7);
  const TokenChoice b = choose_token(Backend::scalar, x, filtered, 7);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.margin, b.margin);
  EXPECT_EQ(a.deficit, b.deficit);
}

TEST(Sampling, ANearZeroTemperatureIsATemperature) {
  const std::vector<float> x = {1.0f, 1.0f + 0x1p-20f};
  SamplerParams params;
  params.temperature = 1e-30;
  EXPECT_EQ(choose_token(Backend::scalar, x, params).id, 1);
  params.temperature = 1e-45;  // x / T is infinite
  EXPECT_EQ(choose_token(Backend::scalar, x, params).id, -1);
}

TEST(Sampling, EveryCombinationOfFiltersAgreesWithTheSlowText) {
  std::uint64_t seed = 100;
  for (const double temperature : {0.0, 0.3, 0.8, 1.5}) {
    for (const std::uint32_t top_k : {0u, 1u, 5u, 1000u}) {
      for (const double min_p : {0.0, 0.05, 1.0}) {
        for (const double top_p : {1.0, 0.95, 0.4, 0.0}) {
          for (const std::size_t count : {1, 2, 20, 1500}) {
            SamplerParams params;
            params.temperature = temperature;
            params.top_k = top_k;
            params.min_p = min_p;
            params.top_p = top_p;
            params.seed = ++seed;
            params.position = static_cast<std::uint32_t>(seed % 50);
            ASSERT_NO_FATAL_FAILURE(expect_as_slowly(some_logits(count, seed), params));
          }
        }
      }
    }
  }
}

TEST(Sampling, BiasAndPenaltiesActInTheirOrder) {
  const std::pair<std::int32_t, double> bias[] = {{2, 3.5}, {5, -100}};
  const TokenCount seen[] = {{0, 1, 0}, {3, 0, 2}, {4, 2, 1}, {9, 0, 5}};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SamplerParams params;
    params.bias = bias;
    params.seen = seen;
    params.repetition_penalty = 1.3;
    params.frequency_penalty = 0.7;
    params.presence_penalty = 0.4;
    params.temperature = seed % 3 == 0 ? 0.0 : 0.9;
    params.seed = seed;
    ASSERT_NO_FATAL_FAILURE(expect_as_slowly(some_logits(12, seed), params));
  }
}

TEST(Sampling, TheFrequenciesAreThoseOfTheSoftmax) {
  const std::vector<float> x = {0.0f, 1.0f, 2.0f, -1.0f};
  double total = 0, probability[4];
  for (int i = 0; i < 4; ++i)
    total += probability[i] = std::exp(static_cast<double>(x[static_cast<std::size_t>(i)]));
  std::map<std::int32_t, int> seen;
  SamplerParams params;
  params.temperature = 1;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    params.position = static_cast<std::uint32_t>(i);
    ++seen[choose_token(Backend::scalar, x, params).id];
  }
  for (int i = 0; i < 4; ++i) {
    // Five standard deviations of a count are below 0.0125 of all draws.
    EXPECT_NEAR(static_cast<double>(seen[i]) / kDraws, probability[i] / total, 0.0125);
  }
}

TEST(Sampling, AnInfiniteBiasIsOutOfRange) {
  const std::vector<float> x = {0.0f, 1.0f};
  const std::pair<std::int32_t, double> bias[] = {{0, 1e300}};
  SamplerParams params;
  params.bias = bias;
  EXPECT_EQ(choose_token(Backend::scalar, x, params).id, -1);
}

}  // namespace
}  // namespace verbatim::kernels::test
