// What can be done to the files of a data folder, while the log is open and while it is not.

#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <sys/stat.h>

#include <fstream>
#include <map>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

TEST_F(LogTest, EveryFileOfAnOpenLogIsItsOwnersAlone) {
  open();
  exchange();
  for (const char* file : {"log.db", "log.db-wal", "log.db-shm", "keys.db", "high-water", "log.key",
                           "master.key", "lock"}) {
    struct stat info {};
    ASSERT_EQ(::stat((folder / file).c_str(), &info), 0) << file;
    EXPECT_EQ(info.st_mode & 07777, 0600u) << file;
  }
}

TEST_F(LogTest, NoSecondTreeIsBegunWithTheKeysOfTheFirst) {
  open();
  exchange();
  close();
  fs::remove(folder / "log.db");
  fs::remove(folder / "high-water");
  EXPECT_EQ(refusal().code, Errc::tampered);
  EXPECT_FALSE(fs::exists(folder / "log.db"));
  EXPECT_FALSE(fs::exists(folder / "high-water"));
}

TEST_F(LogTest, DeletingTheLockFileLetsNobodyIn) {
  open();
  fs::remove(folder / "lock");
  EXPECT_EQ(refusal().code, Errc::unavailable);
  exchange();
  fs::remove(folder / "lock");
  EXPECT_EQ(refusal().code, Errc::unavailable);
  close();
  open();
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

/// Appending must fail, and say that the log has stopped.
void expect_stopped(Log& log, LeafDraft draft) {
  const auto appended = log.append_and_wait(std::move(draft));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, Errc::storage_failed);
  EXPECT_NE(appended.error().what.find("moved, replaced or deleted"), std::string::npos)
      << appended.error().what;
  EXPECT_FALSE(log.healthy());
}

TEST_F(LogTest, ALogThatIsDeletedUnderItsWriterAcknowledgesNothingMore) {
  open();
  exchange();
  fs::remove(folder / "log.db");
  expect_stopped(*log, request("lost"));
  close();
  EXPECT_EQ(verified().verdict, Verdict::truncated);
}

TEST_F(LogTest, AWalThatIsDeletedUnderItsWriterAcknowledgesNothingMore) {
  open();
  exchange();
  fs::remove(folder / "log.db-wal");
  expect_stopped(*log, request("lost"));
}

TEST_F(LogTest, AFolderThatIsReplacedUnderItsWriterAcknowledgesNothingMore) {
  open();
  exchange();
  const fs::path other = folder.string() + ".other";
  fs::rename(folder, other);
  fs::copy(other, folder, fs::copy_options::recursive);
  expect_stopped(*log, request("lost"));
  close();
  fs::remove_all(folder);
  fs::rename(other, folder);
  open();
  exchange();
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

TEST_F(LogTest, DamageOfTheFirstPageIsAlwaysAReport) {
  open();
  exchange();
  close();
  const std::string whole = read_file(folder / "log.db", 1 << 26).value();
  std::map<Verdict, int> verdicts;
  const auto damage = [&](std::size_t at, std::uint8_t bits) {
    std::fstream file(folder / "log.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(static_cast<std::uint8_t>(whole[at]) ^ bits));
    file.close();
    const auto report = verify(folder, {});
    // Bytes 60 to 63 are the format's number, and a larger one is what a newer verbatim would write there.
    const bool newer = !report && report.error().code == Errc::newer_version;
    EXPECT_TRUE(report || (newer && at >= 60 && at < 64))
        << "byte " << at << ": " << report.error().message();
    if (report) ++verdicts[report->verdict];
    file.open(folder / "log.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(whole[at]);
  };
  // The header, but for bytes that SQLite itself does not mind; then what holds the tables' definitions.
  for (std::size_t at = 0; at < 112; ++at) {
    for (const std::uint8_t bits : {std::uint8_t{1}, std::uint8_t{255}}) damage(at, bits);
  }
  EXPECT_GT(verdicts[Verdict::tampered], 75);
  verdicts.clear();
  const std::size_t definitions = whole.find("CREATE TABLE");
  const std::size_t end = whole.rfind("CREATE TABLE", 16'384) + 200;
  ASSERT_LT(end, 16'384u);
  for (std::size_t at = definitions; at < end; at += 151) damage(at, 0x20);
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_GT(verdicts[Verdict::tampered], 5);
}

}  // namespace
}  // namespace verbatim::audit::test
