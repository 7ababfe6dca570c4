// Backups: whole while the log is written, verified before they appear, and a log goes on from one.

#include "audit/backup.hpp"

#include "audit/backup_mark.hpp"
#include "audit/erasure.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <atomic>
#include <thread>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

class BackupTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    out = folder.string() + ".backup";
    open();
    for (int i = 0; i < 20; ++i) exchange("body " + std::to_string(i));
  }
  Result<BackupReport> made(bool keys) const { return back_up(folder, {out, keys}); }

  fs::path out;
};

TEST_F(BackupTest, WithoutKeysItProvesEverythingAndRevealsNothing) {
  const BackupReport report = made(false).value();
  EXPECT_EQ(report.size, 42u);
  const VerifyReport verdict = verify(out, {}).value();
  EXPECT_EQ(verdict.verdict, Verdict::valid);
  EXPECT_EQ(verdict.size, 42u);
  EXPECT_EQ(verdict.root, report.root);
  EXPECT_NE(verdict.contents_unchecked, "");
  for (const char* file : {"keys.db", "master.key", "log.key"}) {
    EXPECT_FALSE(fs::exists(out / file)) << file;
  }
  EXPECT_EQ(fs::status(out).permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(out / "log.db").permissions(), fs::perms(0600));
}

TEST_F(BackupTest, TakesOverWhatAKilledOneLeftAndNothingElse) {
  const fs::path left = out.string() + ".tmp";
  fs::create_directories(left / "cosigned");
  for (const char* name : {"log.db", "log.db-journal", "keys.db", "high-water.tmp.7"}) {
    ASSERT_TRUE(write_file(left / name, "half")) << name;
  }
  ASSERT_TRUE(write_file(left / "cosigned" / "5", "half"));
  EXPECT_EQ(made(true)->size, 42u);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(out / "log.db-journal"));
  EXPECT_FALSE(fs::exists(out / "cosigned" / "5"));
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);

  fs::remove_all(out);
  fs::create_directories(left);
  ASSERT_TRUE(write_file(left / "log.db", "half"));
  ASSERT_TRUE(write_file(left / "thesis.txt", "precious"));
  const auto refused = made(true);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find(left.string()), std::string::npos);
  EXPECT_TRUE(fs::exists(left / "thesis.txt"));
  EXPECT_TRUE(fs::exists(left / "log.db"));
  fs::remove_all(left);
}

TEST_F(BackupTest, TheRestoreDrill) {
  (void)made(true).value();
  EXPECT_EQ(verify(out, {})->checked_contents, 40u);
  exchange("after the backup");
  const std::string kept = reader()->checkpoint().value();
  close();
  // The disk is lost, the high-water mark with it: the log goes on from the backup ...
  LogOptions restored = options();
  restored.data_dir = out;
  {
    auto again = Log::open(restored, clock).value();
    (void)again->append_and_wait(request("after the restore")).value();
    EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  }
  // ... and whoever kept a checkpoint sees that something is missing.
  VerifyOptions with;
  with.checkpoint = kept;
  const Verdict verdict = verify(out, with)->verdict;
  EXPECT_TRUE(verdict == Verdict::forked || verdict == Verdict::stale);
  // Where the mark survived, the log itself sees it.
  fs::remove_all(out);
  open();
  (void)made(true).value();
  exchange("later");
  close();
  fs::copy_file(out / "log.db", folder / "log.db", fs::copy_options::overwrite_existing);
  EXPECT_EQ(verified().verdict, Verdict::truncated);
  EXPECT_EQ(refusal().code, Errc::tampered);
}

/// Types of all leaves in a folder, by index.
std::vector<std::string> types_in(const fs::path& folder) {
  std::vector<std::string> types;
  const auto reader = LogReader::open(folder).value();
  for (std::uint64_t at = 0; at < reader->size().value(); ++at) {
    types.push_back(reader->leaf(at)->json.at("type"));
  }
  return types;
}

TEST_F(BackupTest, TheFirstWriterThatGoesOnFromOneSaysSoOnce) {
  const BackupReport report = back_up(folder, {out, true, kNow}).value();
  close();
  EXPECT_TRUE(fs::exists(out / kBackupMarkName));
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  std::vector<std::string> warnings;
  LogOptions restored = options();
  restored.data_dir = out;
  restored.warn = [&](const std::string& text) { warnings.push_back(text); };
  Log::open(restored, clock).value().reset();
  EXPECT_FALSE(fs::exists(out / kBackupMarkName));
  ASSERT_EQ(types_in(out).size(), report.size + 3);
  EXPECT_EQ(types_in(out)[report.size], "restored");
  const Json leaf = LogReader::open(out).value()->leaf(report.size)->json;
  EXPECT_EQ(leaf.at("backup_size"), report.size);
  EXPECT_EQ(leaf.at("backup_root"), report.root.hex());
  EXPECT_EQ(leaf.at("backup_time"), format_rfc3339(kNow));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(" with 42 leaves"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find(format_rfc3339(kNow)), std::string::npos) << warnings[0];

  // No second time; and the log that was copied goes on as before.
  Log::open(restored, clock).value().reset();
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(types_in(out).size(), report.size + 5);
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  restored.data_dir = folder;
  Log::open(restored, clock).value().reset();
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(BackupTest, ACommandThatGoesOnFromOneSaysSoToo) {
  (void)back_up(folder, {out, true, kNow}).value();
  close();
  std::vector<std::string> warnings;
  auto appender =
      open_appender(out, clock, [&](const std::string& text) { warnings.push_back(text); }).value();
  EXPECT_EQ(warnings.size(), 1u);
  appender.reset();
  EXPECT_EQ(types_in(out)[42], "restored");
}

TEST_F(BackupTest, AMarkThatCannotBeReadIsAMark) {
  (void)made(true).value();
  close();
  LogOptions restored = options();
  restored.data_dir = out;
  std::uint64_t at = 42;
  const std::string zeros(64, '0');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string(5000, ' '),
        R"({"made":7,"root":"00","size":-1,"id":"x"})" + std::string(),
        R"({"made":"now","root":")" + zeros + R"(","size":9007199254740993})"}) {
    ASSERT_TRUE(write_file(out / kBackupMarkName, text));
    Log::open(restored, clock).value().reset();
    EXPECT_FALSE(fs::exists(out / kBackupMarkName));
    const Json leaf = LogReader::open(out).value()->leaf(at)->json;
    EXPECT_EQ(leaf.at("type"), "restored");
    EXPECT_EQ(leaf.size(), text.find(zeros) == std::string::npos ? 4u : 5u) << leaf;
    at += 3;
  }
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
}

TEST_F(BackupTest, IsWholeWhileOthersAppendAndErase) {
  std::atomic<bool> stop{false};
  std::thread traffic([&] {
    while (!stop) {
      const Appended at = exchange();
      (void)log->erase({Scope{at.id, "", false}, "test", "tester"}).value();
      for (int i = 0; i < 20 && !stop; ++i) exchange();
    }
  });
  for (int i = 0; i < 5; ++i) {
    const auto report = made(true);
    // Erasures in the middle of every attempt are possible, and said.
    EXPECT_TRUE(report || report.error().code == Errc::unavailable) << report.error().message();
    if (report) {
      EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
    }
    fs::remove_all(out);
  }
  stop = true;
  traffic.join();
}

TEST_F(BackupTest, WritesOverNothingAndKeepsNoBadCopy) {
  fs::create_directory(out);
  EXPECT_EQ(made(false).error().code, Errc::invalid_input);
  fs::remove_all(out);
  close();
  attack_without_triggers("UPDATE leaf SET status = 'timeout' WHERE idx = 3");
  EXPECT_EQ(made(false).error().code, Errc::tampered);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(out.string() + ".tmp"));
  EXPECT_EQ(back_up(folder / "nothing", {out, false}).error().code, Errc::not_found);
}

}  // namespace
}  // namespace verbatim::audit::test
