#pragma once
// Reading log.db beside a writer or without one, leaving no trace in the folder.

#include "audit/queries.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace verbatim::audit {

/// With a writer, a reader shares its -wal and -shm files. Without one those do not exist, and an ordinary reader
/// would make them: the file is then opened as immutable, and what was read is thrown away and read again if
/// the file has changed meanwhile. One thread at a time.
class ReadConnection {
 public:
  /// `not_found`, `newer_version`, `tampered` (no log), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<ReadConnection>> open(
      const std::filesystem::path& path);

  /// Runs `work(Queries&)`, which returns a Result, on one snapshot. It may run more than once.
  template <class Work>
  auto read(Work&& work) -> std::invoke_result_t<Work&, Queries&> {
    for (int attempt = 0;; ++attempt) {
      if (auto ready = connect(); !ready) return ready.error();
      auto result = [&]() -> std::invoke_result_t<Work&, Queries&> {
        auto snapshot = Transaction::begin_read(*db_);
        if (!snapshot) return snapshot.error();
        return work(*queries_);
      }();
      if (attempt == 4 || !stale()) return result;
    }
  }

  [[nodiscard]] Database& database() { return *db_; }

 private:
  /// What tells that a file opened as immutable has been written.
  struct State {
    bool wal = false;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  explicit ReadConnection(std::filesystem::path path) : path_(std::move(path)) {}
  [[nodiscard]] State look() const;
  [[nodiscard]] bool stale() const { return immutable_ && look() != state_; }
  Result<void> connect();

  std::filesystem::path path_;
  bool immutable_ = false;
  State state_;
  std::unique_ptr<Database> db_;
  std::unique_ptr<Queries> queries_;
};

}  // namespace verbatim::audit
