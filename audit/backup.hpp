#pragma once
// An online backup: the log as it was at one commit, in a folder that verifies, and that a log can go on from.

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>

namespace verbatim::audit {

struct BackupOptions {
  std::filesystem::path out;  ///< a new folder
  /// Also keys.db, master.key and log.key: with them contents can be read, and the log can go on from the backup (where
  /// log.key names a token: beside that token).
  /// Without them the backup proves everything and reveals nothing, and whoever erases need not reach it.
  bool keys = false;
  std::int64_t made_us = 0;  ///< Unix time: when it is made, for its mark
};

struct BackupReport {
  std::uint64_t size = 0;  ///< leaves
  Digest root;
  std::uint64_t bytes = 0;  ///< of log.db
};

/// Copies a log, live or not; writers are not held up. Everything is on the disk, and the copy has been verified, before
/// the folder appears. Its high-water mark is at the copy's own size: a restored backup is a shorter log that knows of
/// nothing later, so restore log.db alone where that survived, and compare with checkpoints that others kept. The copy also
/// carries a mark (audit/backup_mark.hpp), by which the first writer that goes on from it records that.
/// Errors: `invalid_input` (something is at `out`), `not_found` (no log, or no keys), `tampered` (the log does not
/// verify), `unavailable` (contents were erased again and again meanwhile), `storage_failed`.
[[nodiscard]] Result<BackupReport> back_up(const std::filesystem::path& data_dir,
                                           const BackupOptions& options);

}  // namespace verbatim::audit
