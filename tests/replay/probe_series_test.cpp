// Runs of a probe as files: what is read can be written again, to the byte.

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

}  // namespace
}  // namespace verbatim::replay
