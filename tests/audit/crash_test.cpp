// Writers that are killed at any moment, disks that fill up, folders that cannot be written.

#include "audit/log.hpp"
#include "audit/signer.hpp"
#include "tests/audit/fixture.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <thread>

namespace verbatim::audit::test {
namespace {

class CrashTest : public LogTest {
 protected:
  [[nodiscard]] LogOptions strict() const {
    LogOptions with = options();
    with.mode = DurabilityMode::strict;
    return with;
  }

  /// In a child process: opens the log and appends exchanges from three threads, and writes a line "index id" to
  /// `acknowledged` for each leaf once the log says that it is durable. Never returns.
  [[noreturn]] void write_until_killed(int acknowledged) {
    SystemClock now;
    auto opened = Log::open(strict(), now);
    if (!opened) ::_exit(7);
    Log& writing = **opened;
    const auto tell = [&](const Appended& leaf) {
      const std::string line = std::to_string(leaf.index) + " " + leaf.id.str() + "\n";
      if (::write(acknowledged, line.data(), line.size()) < 0) ::_exit(8);
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (;;) {
          const auto asked = writing.append_and_wait(request(std::string(5000, 'q')));
          if (!asked) ::_exit(9);
          tell(*asked);
          const auto answered = writing.append_and_wait(response(*asked, std::string(9000, 'a')));
          if (!answered) ::_exit(9);
          tell(*answered);
        }
      });
    }
    for (;;) ::pause();
  }

  /// Runs such a child for a while, kills it, and returns what it acknowledged.
  std::map<std::uint64_t, std::string> run_and_kill(int after_ms) {
    const std::string path = folder.string() + ".acknowledged";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    ::close(fd);
    std::map<std::uint64_t, std::string> acknowledged;
    std::ifstream file(path);
    std::uint64_t index = 0;
    for (std::string id; file >> index >> id;) {
      EXPECT_TRUE(acknowledged.emplace(index, id).second) << "index used twice: " << index;
    }
    std::filesystem::remove(path);
    return acknowledged;
  }
};

TEST_F(CrashTest, WhatWasAcknowledgedIsThereHoweverTheWriterDies) {
  std::mt19937 random(20'261'129);
  std::map<std::uint64_t, std::string> all;
  std::uint64_t size = 0;
  for (int round = 0; round < 12; ++round) {
    // From within start-up and recovery to the middle of traffic.
    const auto now = run_and_kill(static_cast<int>(random() % 400));
    for (const auto& [index, id] : now) {
      EXPECT_GE(index, size) << "an index was used again";
      all.emplace(index, id);
    }
    if (!std::filesystem::exists(folder / "log.db")) continue;
    log = Log::open(strict(), clock).value();
    close();
    const auto r = reader();
    size = r->size().value();
    for (const auto& [index, id] : now) EXPECT_EQ(r->leaf(index)->json.at("id"), id);
    RecordFilter open_only;
    open_only.status = "open";
    EXPECT_TRUE(r->list(open_only)->empty());
    const VerifyReport report = verified();
    EXPECT_EQ(report.verdict, Verdict::valid)
        << (report.problems.empty() ? "" : report.problems[0].detail);
  }
  EXPECT_GT(all.size(), 0u);
  const auto r = reader();
  for (const auto& [index, id] : all) EXPECT_EQ(r->leaf(index)->json.at("id"), id);
}

TEST_F(CrashTest, AKilledWritersLogVerifiesBeforeItIsOpenedAgain) {
  for (const int after_ms : {20, 60, 150, 600}) {
    const auto acknowledged = run_and_kill(after_ms);
    const auto report = verify(folder, {});
    if (!report) {  // not begun yet: neither key nor leaf
      EXPECT_EQ(report.error().code, Errc::not_found) << report.error().message();
      EXPECT_TRUE(acknowledged.empty());
      continue;
    }
    // keys.db may hold a transaction that only a writer takes back.
    const bool unread = kinds(*report) == std::vector<std::string>{"contents_unchecked"};
    EXPECT_EQ(report->verdict, unread ? Verdict::valid_unwitnessed : Verdict::valid)
        << (report->problems.empty() ? "" : report->problems[0].detail);
  }
  open();
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

TEST_F(CrashTest, ALogThatACrashLeftHalfMadeIsMadeAnew) {
  open();
  close();
  // As if the process had ended before log.db had its tables, and before the mark moved.
  const auto begun = std::filesystem::path(folder.string() + ".begun");
  std::filesystem::remove_all(begun);
  std::filesystem::create_directories(begun);
  LogOptions with = options();
  with.data_dir = begun;
  ASSERT_TRUE(FileSigner::create(begun, "log.example/begun"));
  std::ofstream(begun / "log.db").flush();
  EXPECT_EQ(verify(begun, {}).error().code, Errc::not_found);
  EXPECT_EQ(LogReader::open(begun).error().code, Errc::not_found);
  EXPECT_EQ(Log::open(with, clock).value()->origin(), "log.example/begun");
  EXPECT_EQ(verify(begun, {})->verdict, Verdict::valid);
}

TEST_F(CrashTest, AnEmptiedLogIsNotMadeAnew) {
  open();
  close();
  std::ofstream(folder / "log.db", std::ios::trunc).flush();
  EXPECT_EQ(refusal().code, Errc::tampered);
  const VerifyReport report = verified();
  EXPECT_EQ(report.verdict, Verdict::truncated);
  EXPECT_EQ(kinds(report), std::vector<std::string>{"log_missing"});
}

/// A small file system of its own, where this may be made.
class FullDiskTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    mounted_ = ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=3m") == 0;
    if (!mounted_) GTEST_SKIP() << "SKIPPED: mounting a tmpfs needs root";
  }
  void TearDown() override {
    log.reset();
    if (mounted_) ::umount(folder.c_str());
    LogTest::TearDown();
  }
  bool mounted_ = false;
};

TEST_F(FullDiskTest, AFullDiskChangesNothingAndTheLogGoesOnWhenThereIsRoom) {
  open();
  const Appended first = exchange();
  std::string random(200'000, '\0');
  fill_random({reinterpret_cast<std::uint8_t*>(random.data()), random.size()});
  std::uint64_t appended = 0;
  Error error;
  for (int i = 0; i < 100; ++i) {
    const auto done = log->append_and_wait(request(random));
    if (!done) {
      error = done.error();
      break;
    }
    ++appended;
  }
  EXPECT_EQ(error.code, Errc::storage_failed);
  EXPECT_EQ(error.what, "no space left on the disk");
  EXPECT_FALSE(log->healthy());
  EXPECT_EQ(reader()->size().value(), 4 + appended);
  EXPECT_EQ(reader()->content(first.index, "request.body")->bytes, "{\"prompt\":\"hi\"}");
  EXPECT_EQ(verified().verdict, Verdict::valid);

  ASSERT_EQ(::mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const auto after = log->append_and_wait(request(random));
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->index, 4 + appended);
  EXPECT_TRUE(log->healthy());
  close();
  open();
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

TEST_F(FullDiskTest, ALogThatFindsNoRoomSaysSo) {
  std::ofstream(folder / "filler") << std::string(3u << 20, 'x');
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::storage_failed) << error.message();
  EXPECT_NE(error.message().find("o space left"), std::string::npos) << error.message();
  std::filesystem::remove(folder / "filler");
  open();
  exchange();
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

TEST_F(FullDiskTest, AReadOnlyFolderIsReadAndVerifiedButNotOpened) {
  open();
  exchange();
  close();
  ASSERT_EQ(::mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=3m"), 0);
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::storage_failed);
  EXPECT_NE(error.message().find("ead-only"), std::string::npos) << error.message();
  EXPECT_EQ(reader()->content(2, "request.body")->bytes, "{\"prompt\":\"hi\"}");
  EXPECT_EQ(verified().verdict, Verdict::valid);
}

}  // namespace
}  // namespace verbatim::audit::test
