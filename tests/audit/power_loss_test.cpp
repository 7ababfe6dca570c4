// Power that goes at any write or sync: what was acknowledged is there, at most one batch more, and the log goes on.

#include "audit/signer.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"
#include "tests/audit/power_loss_vfs.hpp"

#include <cstdlib>
#include <map>
#include <random>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSeedsEach = 125;

class PowerLossTest : public LogTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    // Syncing is what the disk below records; the file system itself need not be durable.
    const std::string name = std::to_string(::getpid()) + "." + std::to_string(GetParam());
    folder = fs::exists("/dev/shm") ? fs::path("/dev/shm/verbatim-power-" + name)
                                    : verbatim::test::fresh_dir();
    begun_ = folder.string() + ".begun";
    fs::remove_all(folder);
    fs::remove_all(begun_);
    log = Log::open(strict(), clock).value();
    exchange();
    close();
    fs::rename(folder, begun_);
  }
  [[nodiscard]] LogOptions strict() const {
    LogOptions with = options();
    with.mode = DurabilityMode::strict;
    return with;
  }
  /// Slots of the high-water mark are written without a sync: any that was written may be the one on the disk.
  void note_marks() {
    const std::string bytes = read_file(folder / "high-water", 8192).value();
    for (const int slot : {0, 1}) {
      const std::string now = bytes.substr(static_cast<std::size_t>(slot) * 4096, 4096);
      if (marks_[slot].empty() || marks_[slot].back() != now) marks_[slot].push_back(now);
    }
  }
  void lose_marks(std::mt19937& random) {
    std::string bytes;
    for (auto& versions : marks_) {
      bytes += versions[random() % versions.size()];
      versions.clear();
    }
    std::ofstream(folder / "high-water", std::ios::binary | std::ios::trunc) << bytes;
  }

  /// Appends until the power goes. Returns what was acknowledged: index and id.
  std::map<std::uint64_t, std::string> write_until_dead(std::mt19937& random) {
    std::map<std::uint64_t, std::string> acknowledged;
    for (int i = 0; i < 4; ++i) {
      LeafDraft asked = request(std::string(random() % 30'000, 'q'));
      asked.subject = "subject " + std::to_string(random() % 3);
      const auto at = log->append_and_wait(asked);
      note_marks();
      if (!at) break;
      acknowledged.emplace(at->index, at->id.str());
      const auto answered = log->append_and_wait(response(*at, std::string(random() % 9000, 'a')));
      note_marks();
      if (!answered) break;
      acknowledged.emplace(answered->index, answered->id.str());
    }
    return acknowledged;
  }

  fs::path begun_;
  std::vector<std::string> marks_[2];
  PowerLossDisk disk_;
};

TEST_P(PowerLossTest, NothingThatWasAcknowledgedIsLost) {
  std::uint64_t acknowledged_in_all = 0, lost_power = 0;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSeedsEach;
  for (std::uint64_t seed = first; seed < first + kSeedsEach; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    fs::remove_all(folder);
    fs::copy(begun_, folder);
    for (auto& versions : marks_) versions.clear();
    note_marks();
    disk_.lose_power_after(1 + random() % 140);
    std::map<std::uint64_t, std::string> acknowledged;
    auto opened = Log::open(strict(), clock);
    note_marks();
    if (opened) {
      log = std::move(*opened);
      acknowledged = write_until_dead(random);
      close();
    }
    note_marks();
    if (disk_.dead()) ++lost_power;
    disk_.restore_power(random);
    fs::remove(folder / "log.db-shm");
    lose_marks(random);
    acknowledged_in_all += acknowledged.size();

    const VerifyReport before = verified();
    // keys.db may hold a transaction that only a writer takes back.
    const bool unread = kinds(before) == std::vector<std::string>{"contents_unchecked"};
    ASSERT_EQ(before.verdict, unread ? Verdict::valid_unwitnessed : Verdict::valid)
        << (before.problems.empty() ? "" : before.problems[0].kind + before.problems[0].detail);
    auto again = Log::open(strict(), clock);
    ASSERT_TRUE(again) << again.error().message();
    log = std::move(*again);
    exchange();
    const auto r = reader();
    for (const auto& [index, id] : acknowledged) {
      ASSERT_EQ(r->leaf(index)->json.at("id"), id) << "leaf " << index;
    }
    // Every exchange that was acknowledged opens: its subject's key was durable first.
    const VerifyReport after = verified();
    ASSERT_EQ(after.verdict, Verdict::valid)
        << (after.problems.empty() ? "" : after.problems[0].kind + after.problems[0].detail);
    close();
    if (!acknowledged.empty()) {
      ASSERT_LE(before.size, acknowledged.rbegin()->first + 3);
    }
  }
  EXPECT_GT(acknowledged_in_all, kSeedsEach / 2);
  EXPECT_GT(lost_power, kSeedsEach / 2);
  fs::remove_all(begun_);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerLossTest, testing::Range(0, 8));

}  // namespace
}  // namespace verbatim::audit::test
