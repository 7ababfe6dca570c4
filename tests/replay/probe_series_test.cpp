// Runs of a probe as files: what is read can be written again, to the byte. And when a run has too few answers to say.

#include "schema/canonical_json.hpp"
#include "tests/replay/some_run.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

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
      [](Json& run) { run["questions"][0]["phases"][0]["asked"] = 10'001; },
      [](Json& run) { run["models"] = Json::array(); },
      [](Json& run) { run["finish_reasons"]["stop"] = "1"; },
      [](Json& run) { run["new_models"] = Json::array({1}); },
      [](Json& run) { run["answered_test"]["p_value"] = "nan"; },
  };
  for (std::size_t i = 0; i < std::size(forgeries); ++i) {
    Json run = Json::parse(format_run(test::some_run()));
    forgeries[i](run);
    const auto read = parse_run(run.dump());
    ASSERT_FALSE(read) << "forgery " << i;
    EXPECT_EQ(read.error().code, Errc::invalid_input);
  }
}

TEST(ProbeSeriesFile, ARunOfAnEarlierVersionLacksSome) {
  Json run = Json::parse(format_run(test::some_run()));
  run["test"].erase("smallest_p_value");
  for (const char* later :
       {"answered_test", "models", "finish_reasons", "new_models", "new_finish_reasons"}) {
    ASSERT_TRUE(run.contains(later)) << later;
    run.erase(later);
  }
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

/// A run of questions that always give the same answer, if they are answered: so many of so many, for each.
SeriesRun answered_run(std::int64_t time_us, std::size_t asked,
                       const std::vector<std::size_t>& answered) {
  SeriesRun run;
  run.time_us = time_us;
  run.baseline_us = 1;
  for (const std::size_t count : answered) {
    SeriesQuestion question;
    if (count > 0) question.texts = {"answer"};
    question.phases = {{1, 0, asked, std::vector<std::size_t>(count, 0)}};
    run.questions.push_back(std::move(question));
  }
  return run;
}

SeriesRun compared(const std::vector<std::size_t>& before, const std::vector<std::size_t>& now,
                   std::size_t asked, std::uint64_t seed = 1) {
  SeriesRun run = answered_run(2, asked, now);
  TwoSampleOptions options;
  options.permutations = 999;
  options.seed = seed;
  compare_with_baseline(run, answered_run(1, asked, before), 0.01, options);
  return run;
}

TEST(ProbeSeries, QuestionsThatAreNoLongerAnsweredAreAChangeOfTheirOwn) {
  const SeriesRun lost = compared({20, 20}, {20, 0}, 20);
  EXPECT_TRUE(lost.changed() && lost.answering_changed() && !lost.answers_changed());
  EXPECT_EQ(series_json(lost)["reasons"], OrderedJson::array({"answered"}));
  EXPECT_NE(series_sentence(lost).find("now 20 of 40: p = 0.001; too few answers to 1 of 2"),
            std::string::npos)
      << series_sentence(lost);
  EXPECT_TRUE(compared({20, 7}, {20, 20}, 20).answering_changed()) << "the other way round";
  EXPECT_TRUE(compared({20, 20}, {20, 8}, 20).answering_changed()) << "in part";
  const std::vector<std::size_t> all(20, 10), some(20, 8);
  EXPECT_TRUE(compared(all, some, 10).answering_changed()) << "a little of each";
}

TEST(ProbeSeries, SingleQuestionsWithoutAnAnswerAreNoChange) {
  EXPECT_EQ(compared({20, 20}, {20, 19}, 20).answered_test->result.p_value, 1);
  EXPECT_FALSE(compared({20, 20}, {19, 18}, 20).changed());
  EXPECT_FALSE(compared({19, 20}, {20, 19}, 20).changed());
  // As many as ever, in each run others.
  std::mt19937_64 random(7);
  constexpr int kRuns = 300;
  int alarms = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto some = [&] {
      std::vector<std::size_t> answered(3, 30);
      for (std::size_t& count : answered) {
        for (int asked = 0; asked < 30; ++asked) count -= random() % 10 == 0 ? 1 : 0;
      }
      return answered;
    };
    alarms += compared(some(), some(), 30, static_cast<std::uint64_t>(i)).changed() ? 1 : 0;
  }
  EXPECT_LE(alarms, 2 * 0.01 * kRuns) << "one in a hundred";
}

TEST(ProbeSeries, AQuestionWithTooFewAnswersLeavesItOpen) {
  const SeriesRun run = compared({8, 8}, {8, 4}, 8);
  EXPECT_EQ(run.questions_open(), 1U);
  EXPECT_FALSE(run.changed());
  EXPECT_TRUE(run.undecided());
  const SeriesRun nobody = compared({20, 20}, {0, 0}, 20);
  EXPECT_FALSE(nobody.answered_test) << "an outage teaches nothing";
  EXPECT_TRUE(nobody.undecided());
}

TEST(ProbeSeries, WhatAnswersTellOfThemselvesIsNotedAndNoAlarm) {
  SeriesRun baseline = answered_run(1, 10, {10}), run = answered_run(2, 10, {10});
  baseline.models = {{"m-1", 10}};
  run.models = {{"m-1", 5}, {"m-2", 5}};
  baseline.finish_reasons = {{"stop", 10}};
  run.finish_reasons = {{"length", 10}};
  compare_with_baseline(run, baseline, 0.01, {});
  EXPECT_FALSE(run.changed() || run.undecided());
  EXPECT_NE(series_sentence(run).find(
                "; 2 different model names; new model name m-2; new finish reason length"),
            std::string::npos)
      << series_sentence(run);
  baseline.models.clear();
  baseline.finish_reasons.clear();
  compare_with_baseline(run, baseline, 0.01, {});
  EXPECT_TRUE(run.new_models.empty() && run.new_finish_reasons.empty())
      << "a baseline of an earlier version";
}

}  // namespace
}  // namespace verbatim::replay
