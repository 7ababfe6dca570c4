#include "audit/log_overview.hpp"

#include "tests/audit/fixture.hpp"

namespace verbatim::audit::test {
namespace {

class LogOverviewTest : public LogTest {
 protected:
  Appended verdict(const std::string& name, const std::string& reason = "") {
    LeafDraft draft;
    draft.type = "replay_verdict";
    draft.fields = {{"record", "a record"}, {"verdict", name}, {"reason", reason}};
    return log->append_and_wait(std::move(draft)).value();
  }
};

TEST_F(LogOverviewTest, CountsVerdictsAsTheyBecomeLeaves) {
  open();
  const auto overview = LogOverview::open(folder).value();
  EXPECT_TRUE(overview->verdicts().empty());
  exchange();
  verdict("BITWISE");
  verdict("BITWISE");
  const Appended last = verdict("DIVERGED", std::string(100, 'x'));
  EXPECT_TRUE(overview->verdicts().empty()) << "it has not looked yet";
  ASSERT_TRUE(overview->refresh());
  EXPECT_EQ(overview->verdicts(),
            (std::map<std::string, std::uint64_t>{{"BITWISE", 2}, {"DIVERGED", 1}}));
  ASSERT_EQ(overview->recent().size(), 3u);
  EXPECT_EQ(overview->recent().back().index, last.index);
  EXPECT_EQ(overview->recent().back().time_us, last.time_us);
  EXPECT_EQ(overview->recent().back().record, "a record");
  EXPECT_EQ(overview->recent().back().reason, std::string(LogOverview::kTextBytesMax, 'x'));
  EXPECT_EQ(overview->size(), last.tree_size);
  EXPECT_EQ(overview->grown_us(), last.time_us);
  EXPECT_GT(overview->file_bytes(), 0u);
  ASSERT_TRUE(overview->refresh());
  EXPECT_EQ(overview->verdicts().at("BITWISE"), 2u) << "nothing is counted twice";
}

TEST_F(LogOverviewTest, FindsTheNewestOfBeforeAndCountsFromNow) {
  open();
  const Appended last = verdict("DIVERGED");
  exchange();
  const auto overview = LogOverview::open(folder).value();
  EXPECT_TRUE(overview->verdicts().empty());
  ASSERT_EQ(overview->recent().size(), 1u);
  EXPECT_EQ(overview->recent().back().index, last.index);
  EXPECT_EQ(overview->size(), log->stats().leaves);
}

TEST_F(LogOverviewTest, NeitherNamesNorWhatIsRememberedAreWithoutEnd) {
  open();
  const auto overview = LogOverview::open(folder).value();
  for (int i = 0; i < 40; ++i) verdict("name " + std::to_string(i));
  LeafDraft odd;
  odd.type = "replay_verdict";
  odd.fields = {{"record", 7}, {"verdict", nullptr}};
  (void)log->append_and_wait(std::move(odd)).value();
  ASSERT_TRUE(overview->refresh());
  EXPECT_EQ(overview->verdicts().size(), LogOverview::kNamesMax + 1);
  EXPECT_EQ(overview->verdicts().at("other"), 41u - LogOverview::kNamesMax);
  EXPECT_EQ(overview->recent().size(), LogOverview::kRecentMax);
  EXPECT_EQ(overview->recent().back().verdict, "");
}

TEST_F(LogOverviewTest, SaysThatThereIsNoLog) {
  EXPECT_EQ(LogOverview::open(folder).error().code, Errc::not_found);
}

}  // namespace
}  // namespace verbatim::audit::test
