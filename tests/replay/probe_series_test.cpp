// Runs of a probe as files: what is read can be written again, to the byte. And when a run has too few answers to say.

#include "schema/canonical_json.hpp"
#include "tests/replay/some_run.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace verbatim::replay {
namespace {

TEST(ProbeSeriesFile, ARunReadsBackAsItself) {
  const std::string text = format_run(test::some_run());
  const auto read = parse_run(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->test->seed, UINT64_MAX);
  EXPECT_EQ(format_run(*read), text);
}

TEST(ProbeSeriesFile, ARunThatCouldNotBeWrittenAgainIsNone) {
  const std::function<void(Json&)> forgeries[] = {
      [](Json& run) { run["test"]["mmd2"] = "nan"; },
      [](Json& run) { run["test"]["p_value"] = "inf"; },
      [](Json& run) { run["test"]["seed"] = "18446744073709551616"; },
      [](Json& run) { run["test"]["seed"] = "7 "; },
      [](Json& run) { run["test"]["before"] = (1ULL << 53) + 1; },
      [](Json& run) { run["questions"][0]["phases"][0]["asked"] = UINT64_MAX; },
      [](Json& run) { run["fingerprints"]["fp"] = UINT64_MAX; },
      [](Json& run) { run["failures"]["timeout"] = -1; },
  };
  for (std::size_t i = 0; i < std::size(forgeries); ++i) {
    Json run = Json::parse(format_run(test::some_run()));
    forgeries[i](run);
    const auto read = parse_run(run.dump());
    ASSERT_FALSE(read) << "forgery " << i;
    EXPECT_EQ(read.error().code, Errc::invalid_input);
  }
}

TEST(ProbeSeriesFile, ARunOfAnEarlierVersionHasNoSmallestP) {
  Json run = Json::parse(format_run(test::some_run()));
  run["test"].erase("smallest_p_value");
  const auto read = parse_run(run.dump());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->test->smallest_p_value, 0);
  EXPECT_FALSE(read->undecided());
}

TEST(ProbeSeries, TheSmallestPIsThatOfAnswersWhichAreAllReplaced) {
  constexpr std::size_t kMany = std::size_t{1} << 40;
  EXPECT_DOUBLE_EQ(smallest_p_value({{6, 6}}, kMany), 2.0 / 924);
  EXPECT_DOUBLE_EQ(smallest_p_value({{5, 7}}, kMany), 1.0 / 792);
  EXPECT_DOUBLE_EQ(smallest_p_value({{7, 5}}, kMany), 1.0 / 792);
  EXPECT_DOUBLE_EQ(smallest_p_value({{5, 5}, {5, 6}}, kMany), 2.0 / 252 / 462);
  EXPECT_EQ(smallest_p_value({{200, 200}}, 9999), 0.0001);
  EXPECT_EQ(smallest_p_value({}, 9999), 1);
  // As the test itself finds it, by drawing.
  const SampleGroup replaced{std::vector<std::string>(6, "now"),
                             std::vector<std::string>(6, "old")};
  TwoSampleOptions options;
  options.permutations = 200'000;
  EXPECT_NEAR(two_sample_test({replaced}, options).p_value, 2.0 / 924, 0.0004);
}

TEST(ProbeSeries, ARunWhoseAnswersCannotAlarmIsUndecided) {
  SeriesRun run = test::some_run();
  run.new_fingerprints.clear();
  run.test->alpha = 0.001;
  run.test->result.p_value = 0.0025;
  run.test->smallest_p_value = 0.0022;
  EXPECT_TRUE(run.undecided());
  EXPECT_NE(series_sentence(run).find("UNDECIDED"), std::string::npos);
  EXPECT_NE(series_metrics({run}, "s").find("last_undecided{series=\"s\",model=\"m\"} 1\n"),
            std::string::npos);
  run.test->smallest_p_value = 0.001;
  EXPECT_FALSE(run.undecided());
  run.test.reset();
  EXPECT_TRUE(run.undecided());
  run.new_fingerprints = {"fp"};
  EXPECT_FALSE(run.undecided()) << "that is a change, whatever was answered";
  run.new_fingerprints.clear();
  run.baseline_us = run.time_us;
  EXPECT_FALSE(run.undecided());
}

}  // namespace
}  // namespace verbatim::replay
