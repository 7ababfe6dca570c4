// Runs of a probe as files: what is read can be written again, to the byte.

#include "replay/probe_series.hpp"

#include "schema/canonical_json.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace verbatim::replay {
namespace {

SeriesRun some_run() {
  SeriesRun run;
  run.time_us = 1'795'960'796'000'000;
  run.url = "https://api.example.com";
  run.api = "openai.chat";
  run.model = "m";
  SeriesQuestion question;
  question.request = "{}";
  question.texts = {"a", "b"};
  question.phases = {{1, 0, 3, {0, 0, 1}}};
  run.questions = {question};
  run.fingerprints = {{"fp", 3}};
  run.test = SeriesTest{{}, 0.01, 1000, UINT64_MAX};
  return run;
}

TEST(ProbeSeriesFile, ARunReadsBackAsItself) {
  const std::string text = format_run(some_run());
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
    Json run = Json::parse(format_run(some_run()));
    forgeries[i](run);
    const auto read = parse_run(run.dump());
    ASSERT_FALSE(read) << "forgery " << i;
    EXPECT_EQ(read.error().code, Errc::invalid_input);
  }
}

}  // namespace
}  // namespace verbatim::replay
