// What the GPU's kernels say of logits and which tokens they choose, against the CPU, by bits.

#include "kernels/logits/logits.hpp"
#include "kernels/logits/logits_cuda.hpp"
#include "kernels/sampling/sampling.hpp"
#include "kernels/sampling/sampling_cuda.hpp"
#include "tests/gpu/device.hpp"

#include <cstring>
#include <limits>

namespace verbatim::kernels::test {
namespace {

/// Logits with ties: few distinct values among many.
std::vector<float> logits_of(std::size_t count, std::uint64_t seed, bool ties) {
  std::vector<float> x = random_floats(count, seed);
  for (float& value : x) value = ties ? std::round(value * 3) : value * 8;
  if (count > 2) x[count / 2] = -0.0f;
  return x;
}

class Tokens : public OnDevice {
 protected:
  static cuda::LogitRows rows_of(const float* x, std::size_t rows, std::size_t count,
                                 std::size_t stride) {
    cuda::LogitRows all;
    all.logits = x;
    all.rows = rows;
    all.count = count;
    all.stride = stride;
    return all;
  }

  std::vector<cuda::LogitStats> stats(const cuda::LogitRows& rows) {
    auto* out = memory_.fresh<cuda::LogitStats>(rows.rows);
    cuda::logit_stats(rows, memory_.fresh<std::byte>(cuda::logit_scratch_bytes(rows)), out,
                      nullptr);
    return memory_.download(out, rows.rows);
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, Tokens, testing::Range<std::size_t>(0, kRuns));

TEST_P(Tokens, StatisticsOfRowsOfEveryLength) {
  for (const std::size_t count : {1, 2, 3, 255, 256, 257, 2047, 2048, 2049, 5000}) {
    for (const bool ties : {false, true}) {
      const std::size_t rows = 3, stride = count + 2;
      const std::vector<float> x = logits_of(rows * stride, count, ties);
      const auto found = stats(rows_of(memory_.upload(x), rows, count, stride));
      for (std::size_t r = 0; r < rows; ++r) {
        const std::span<const float> row(x.data() + r * stride, count);
        const Top2 top = top2(best_backend(), row);
        const LogSumExp lse = log_sum_exp(best_backend(), row);
        EXPECT_EQ(found[r].finite, 1);
        EXPECT_EQ(found[r].best, top.best);
        EXPECT_EQ(found[r].second, top.second) << count;
        EXPECT_TRUE(same_bits(found[r].best_value, top.best_value));
        if (count > 1) {
          EXPECT_TRUE(same_bits(found[r].second_value, top.second_value));
        }
        EXPECT_TRUE(same_bits(found[r].max, lse.max));
        EXPECT_TRUE(same_bits(found[r].sum, lse.sum)) << count;
      }
      memory_.free();
    }
  }
}

TEST_P(Tokens, ANaNOrInfinityAnywhereIsSeenInThatRowOnly) {
  const std::size_t count = 3000;
  std::vector<float> x = logits_of(4 * count, 1, false);
  x[count] = std::numeric_limits<float>::quiet_NaN();
  x[2 * count + 2999] = -std::numeric_limits<float>::infinity();
  const auto found = stats(rows_of(memory_.upload(x), 4, count, count));
  EXPECT_EQ(found[0].finite, 1);
  EXPECT_EQ(found[1].finite, 0);
  EXPECT_EQ(found[2].finite, 0);
  EXPECT_EQ(found[3].finite, 1);
}

TEST_P(Tokens, LogProbabilitiesAndTheHighestIds) {
  const std::size_t rows = 4, count = 700;
  for (const bool ties : {false, true}) {
    const std::vector<float> x = logits_of(rows * count, 5, ties);
    const cuda::LogitRows on_device = rows_of(memory_.upload(x), rows, count, count);
    const std::vector<std::int32_t> ids = {0, 699, 350, 77};
    float* out = memory_.fresh<float>(rows);
    cuda::logprobs(on_device, memory_.upload(stats(on_device)), memory_.upload(ids), out, nullptr);
    const std::vector<float> found = memory_.download(out, rows);
    auto* device_top = memory_.fresh<std::int32_t>(rows * 20);
    cuda::top_ids(on_device, 20, device_top, nullptr);
    const std::vector<std::int32_t> top = memory_.download(device_top, rows * 20);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const float> row(x.data() + r * count, count);
      EXPECT_TRUE(same_bits(
          found[r],
          log_sum_exp(best_backend(), row).logprob(row[static_cast<std::size_t>(ids[r])])));
      EXPECT_EQ(std::vector<std::int32_t>(top.begin() + static_cast<std::ptrdiff_t>(r * 20),
                                          top.begin() + static_cast<std::ptrdiff_t>(r * 20 + 20)),
                top_ids(row, 20));
    }
  }
}

TEST_P(Tokens, DigestsOfRowsOfEveryLength) {
  for (const std::size_t count : {1, 2, 13, 14, 1023, 1024, 1025, 5000, 17000}) {
    const std::size_t rows = 2, stride = count + 1;
    const std::vector<float> x = random_floats(rows * stride, count, Kind::overflowing);
    const cuda::LogitRows on_device = rows_of(memory_.upload(x), rows, count, stride);
    auto* out = memory_.fresh<std::uint8_t>(rows * 32);
    cuda::row_digests(on_device,
                      memory_.fresh<std::uint32_t>(cuda::digest_scratch_words(on_device)), out,
                      nullptr);
    const std::vector<std::uint8_t> found = memory_.download(out, rows * 32);
    for (std::size_t r = 0; r < rows; ++r) {
      const Digest expected = row_digest({x.data() + r * stride, count});
      EXPECT_EQ(std::memcmp(found.data() + r * 32, expected.view().data(), 32), 0) << count;
    }
    memory_.free();
  }
}

/// What a choice is made of, for both backends.
struct Choice {
  SamplerParams params;
  std::vector<std::pair<std::int32_t, double>> bias;
  std::vector<TokenCount> seen;
  std::int32_t given = -1;
};

class Sampling : public OnDevice {
 protected:
  /// One row a choice, all in one launch.
  void compare(const std::vector<float>& x, std::size_t count, std::vector<Choice> choices) {
    std::vector<cuda::SamplerRow> rows;
    for (Choice& c : choices) {
      c.params.bias = c.bias;
      c.params.seen = c.seen;
      std::vector<cuda::TokenBias> bias;
      for (const auto& [id, value] : c.bias) bias.push_back({id, static_cast<float>(value)});
      std::vector<cuda::TokenCount> seen;
      for (const TokenCount& s : c.seen) seen.push_back({s.id, s.in_prompt, s.in_output});
      cuda::SamplerRow row;
      row.bias = memory_.upload(bias);
      row.bias_count = bias.size();
      row.seen = memory_.upload(seen);
      row.seen_count = seen.size();
      row.repetition_penalty = static_cast<float>(c.params.repetition_penalty);
      row.frequency_penalty = static_cast<float>(c.params.frequency_penalty);
      row.presence_penalty = static_cast<float>(c.params.presence_penalty);
      row.temperature = static_cast<float>(c.params.temperature);
      row.top_k = c.params.top_k;
      row.min_p = c.params.min_p;
      row.top_p = c.params.top_p;
      row.seed = c.params.seed;
      row.position = c.params.position;
      row.choice = c.params.choice;
      row.given = c.given;
      rows.push_back(row);
    }
    const std::size_t stride = x.size() / rows.size();
    cuda::SamplerArgs args;
    args.logits = memory_.upload(x);
    args.rows = rows.size();
    args.count = count;
    args.stride = stride;
    args.params = memory_.upload(rows);
    args.scratch = memory_.fresh<float>(rows.size() * 2 * count);
    args.choices = memory_.fresh<cuda::TokenChoice>(rows.size());
    cuda::choose_tokens(args, nullptr);
    const auto found = memory_.download(args.choices, rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const TokenChoice expected = choose_token(best_backend(), {x.data() + r * stride, count},
                                                choices[r].params, choices[r].given);
      EXPECT_EQ(found[r].id, expected.id) << "row " << r;
      EXPECT_EQ(found[r].second, expected.second) << "row " << r;
      EXPECT_TRUE(same_bits(found[r].margin, expected.margin)) << "row " << r;
      EXPECT_TRUE(same_bits(found[r].deficit, expected.deficit)) << "row " << r;
    }
    memory_.free();
  }

  static Choice sampled(double temperature, std::uint32_t top_k, double min_p, double top_p,
                        std::uint64_t seed) {
    Choice c;
    c.params.temperature = temperature;
    c.params.top_k = top_k;
    c.params.min_p = min_p;
    c.params.top_p = top_p;
    c.params.seed = seed;
    c.params.position = static_cast<std::uint32_t>(seed * 7);
    c.params.choice = static_cast<std::uint32_t>(seed % 3);
    c.given = 1;
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, Sampling, testing::Range<std::size_t>(0, kRuns));

TEST_P(Sampling, GreedyWithBiasAndPenalties) {
  for (const std::size_t count : {2, 300, 1500}) {
    std::vector<Choice> choices(3);
    choices[0].given = 1;
    choices[1].bias = {{0, 2.5}, {1, -100}, {1 << 20, 3}};
    choices[2].seen = {{0, 1, 0}, {1, 0, 3}, {299, 2, 2}};
    choices[2].params.repetition_penalty = 1.3;
    choices[2].params.frequency_penalty = 0.7;
    choices[2].params.presence_penalty = -0.2;
    choices[2].given = 0;
    for (const bool ties : {false, true})
      compare(logits_of(3 * count, count, ties), count, choices);
  }
}

TEST_P(Sampling, EveryFilterAloneAndTogether) {
  for (const std::size_t count : {2, 259, 1500}) {
    for (const bool ties : {false, true}) {
      const std::vector<Choice> choices = {
          sampled(0.7, 0, 0, 1, 1),         sampled(1, 1, 0, 1, 2),
          sampled(1, 40, 0, 1, 3),          sampled(1, 5000, 0, 1, 4),
          sampled(1, 0, 0.05, 1, 5),        sampled(1, 0, 1, 1, 6),
          sampled(1, 0, 0, 0.9, 7),         sampled(1, 0, 0, 0, 8),
          sampled(2, 0, 0, 0.5, 9),         sampled(1, 0, 0, 0.9999999, 10),
          sampled(1.5, 50, 0.01, 0.95, 11), sampled(1e-3, 0, 0, 0.5, 12),
          sampled(1, 3, 0, 0.6, 13)};
      compare(logits_of(choices.size() * count, count + 1, ties), count, choices);
    }
  }
}

TEST_P(Sampling, ANucleusOfMoreTokensThanAreSortedTogether) {
  // Nearly flat: p = 0.95 of 2,600 tokens reaches into the third thousand.
  std::vector<float> x = random_floats(2 * 2600, 3);
  for (float& value : x) value *= 0.01f;
  compare(x, 2600, {sampled(1, 0, 0, 0.95, 1), sampled(1, 0, 0, 0.3, 2)});
}

TEST_P(Sampling, OneToken) {
  std::vector<Choice> choices = {sampled(1, 0, 0, 0.5, 1), Choice{}};
  choices[0].given = 0;
  compare({1.5f, 2.5f}, 1, choices);
}

TEST_P(Sampling, AValueThatLeavesTheRangeChoosesNothing) {
  std::vector<Choice> choices(2);
  choices[0].params.temperature = 1e-30;  // a quotient overflows
  choices[1].bias = {{5, 3e38}};
  std::vector<float> x = logits_of(600, 4, false);
  x[300 + 5] = 3e38f;
  x[3] = 3e10f;
  compare(x, 300, choices);
}

}  // namespace
}  // namespace verbatim::kernels::test
