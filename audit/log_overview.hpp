#pragma once
// What a glance at a log tells its operator: how large it is, when it last grew, and which verdicts replays have given.
// Read from the log itself, whoever appends to it.

#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::audit {

class ReadConnection;

/// A `replay_verdict` leaf, in short. Texts are cut after LogOverview::kTextBytesMax bytes.
struct SeenVerdict {
  std::uint64_t index = 0;
  std::int64_t time_us = 0;
  std::string record, verdict, reason;
};

/// One thread at a time.
class LogOverview {
 public:
  static constexpr std::uint64_t kLookBackLeaves = 50'000;
  static constexpr std::size_t kRecentMax = 12, kNamesMax = 16, kTextBytesMax = 64;

  /// Looks back over the newest leaves. `not_found` (no log there), `newer_version`, `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<LogOverview>> open(
      const std::filesystem::path& data_dir);
  ~LogOverview();

  /// Reads what was appended since the last time; of each leaf its type alone, but for verdicts. On an error everything
  /// is as it was.
  Result<void> refresh();

  [[nodiscard]] std::uint64_t size() const { return seen_.size; }  ///< leaves
  [[nodiscard]] std::int64_t grown_us() const {
    return seen_.grown_us;
  }  ///< time of the newest leaf
  [[nodiscard]] std::uint64_t file_bytes() const { return seen_.file_bytes; }  ///< of log.db
  /// Verdicts since open(), by name; names beyond kNamesMax as "other".
  [[nodiscard]] const std::map<std::string, std::uint64_t>& verdicts() const {
    return seen_.verdicts;
  }
  /// The newest verdicts, oldest first: since open(), and of the kLookBackLeaves leaves before it.
  [[nodiscard]] const std::vector<SeenVerdict>& recent() const { return seen_.recent; }

 private:
  struct Seen {
    std::uint64_t size = 0, file_bytes = 0;
    std::int64_t grown_us = 0;
    std::map<std::string, std::uint64_t> verdicts;
    std::vector<SeenVerdict> recent;
  };

  LogOverview(std::filesystem::path file, std::unique_ptr<ReadConnection> connection);
  [[nodiscard]] Result<Seen> look(Seen seen, bool count);

  std::filesystem::path file_;
  std::unique_ptr<ReadConnection> connection_;
  Seen seen_;
};

}  // namespace verbatim::audit
