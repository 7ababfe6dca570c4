#include "audit/backup.hpp"

#include "audit/backup_mark.hpp"
#include "audit/cosigned.hpp"
#include "audit/database.hpp"
#include "audit/queries.hpp"
#include "audit/verify.hpp"
#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace verbatim::audit {

namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 5;
constexpr std::size_t kMarkBytes =
    std::size_t{2} * 4096;  // high-water: two slots, audit/signer.hpp

/// Beside a writer, or one that a crash ended, its WAL is part of the database. Without one an ordinary reader would leave
/// files behind.
Database::Mode mode_of(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path.string() + "-wal", ignored) ? Database::Mode::read
                                                     : Database::Mode::immutable;
}

/// One snapshot of a database, in a new file.
Result<void> copy_database(const fs::path& from, const fs::path& to) {
  // keys.db keeps a rollback journal: opened as immutable it would be read without its lock.
  auto source =
      Database::open(from, from.filename() == "keys.db" ? Database::Mode::read : mode_of(from));
  if (!source) return source.error();
  std::error_code ignored;
  fs::remove(to, ignored);
  auto copy = Database::open(to, Database::Mode::create);
  if (!copy) return copy.error();
  sqlite3_backup* const backup = sqlite3_backup_init(copy->get(), "main", source->get(), "main");
  if (backup == nullptr) return copy->failure("cannot begin the copy");
  // All at once: one snapshot, however much is appended meanwhile.
  const int code = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE || finished != SQLITE_OK)
    return copy->failure("cannot copy the database");
  return {};
}

Result<void> copy_key_file(const fs::path& from, const fs::path& to) {
  const auto bytes = read_file(from, 4096);
  if (!bytes) return bytes.error();
  return write_file(to, *bytes, 0600);
}

/// Contents were erased since the log was copied: the copied keys may lack what the copied log needs.
Result<bool> erased_since(const fs::path& data_dir, std::uint64_t size) {
  const fs::path path = data_dir / "log.db";
  auto db = Database::open(path, mode_of(path));
  if (!db) return db.error();
  Queries queries(*db);
  bool erased = false;
  auto read = queries.governance(size, [&](std::uint64_t, std::string_view) {
    erased = true;
    return false;
  });
  if (!read) return read.error();
  return erased;
}

/// What a backup that was killed can have left: also temporary names, and what SQLite puts beside a database.
bool is_of_a_backup(const std::string& name) {
  for (const char* part : {"log.db", "keys.db", "master.key", "log.key", "high-water"}) {
    if (name.starts_with(part)) return true;
  }
  return name == "cosigned" || name.starts_with(kBackupMarkName);
}

class Backup {
 public:
  Backup(const fs::path& data_dir, const BackupOptions& options)
      : data_dir_(data_dir), options_(options), folder_(options.out.string() + ".tmp") {}
  ~Backup() {
    std::error_code ignored;
    if (!done_) fs::remove_all(folder_, ignored);
  }
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  Result<BackupReport> run() {
    std::error_code error;
    if (auto begun = begin(); !begun) {
      done_ = true;  // nothing of ours is there
      return begun.error();
    }
    fs::permissions(folder_, fs::perms(0700), error);
    if (auto copied = copy_all(); !copied) return copied.error();
    if (auto kept = write_marks(); !kept) return kept.error();
    if (auto checked = check(); !checked) return checked.error();
    fs::rename(folder_, options_.out, error);
    if (error) {
      return Error{Errc::storage_failed, "cannot name the backup: " + error.message(),
                   options_.out.string(), ""};
    }
    done_ = true;
    const fs::path above = fs::absolute(options_.out).parent_path();
    const Descriptor parent(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (::fsync(parent.get()) != 0) {
      return Error{Errc::storage_failed, "cannot sync the folder: " + errno_text(), above.string(),
                   ""};
    }
    return report_;
  }

 private:
  /// Makes the folder, or takes over what a backup that was killed left there.
  Result<void> begin() {
    std::error_code error;
    if (fs::exists(fs::symlink_status(options_.out, error))) {
      return Error{Errc::invalid_input, "something is at this place already", options_.out.string(),
                   "name a new folder"};
    }
    const bool made = fs::create_directory(folder_, error);
    if (error) {
      return Error{Errc::invalid_input, "the folder cannot be made: " + error.message(),
                   folder_.string(), "name another folder"};
    }
    lock_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!lock_.ok() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      return Error{Errc::invalid_input, "something is there already, or another backup writes it",
                   folder_.string(), "wait for it, or name another folder"};
    }
    if (made) return {};
    std::vector<fs::path> left;
    for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
         entry.increment(error)) {
      left.push_back(entry->path());
      if (is_of_a_backup(left.back().filename().string())) continue;
      return Error{Errc::invalid_input, "a folder is in the way, and no unfinished backup",
                   folder_.string(), "move it away, or name another folder"};
    }
    for (const fs::path& path : left) {
      if (!error) fs::remove_all(path, error);
    }
    if (error) {
      return Error{Errc::storage_failed,
                   "cannot clear away an unfinished backup: " + error.message(), folder_.string(),
                   "remove it"};
    }
    return {};
  }

  Result<void> copy_all() {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (auto copied = copy_database(data_dir_ / "log.db", folder_ / "log.db"); !copied) {
        return copied;
      }
      if (auto head = read_head(); !head) return head;
      if (auto cosigned = copy_cosigned(); !cosigned) return cosigned;
      if (!options_.keys) return {};
      // A key is durable before the log names it: keys that are copied later lack none, unless one was destroyed.
      if (auto copied = copy_database(data_dir_ / "keys.db", folder_ / "keys.db"); !copied) {
        return copied;
      }
      const auto erased = erased_since(data_dir_, report_.size);
      if (!erased) return erased.error();
      if (*erased) continue;
      for (const char* file : {"master.key", "log.key"}) {
        if (auto copied = copy_key_file(data_dir_ / file, folder_ / file); !copied) return copied;
      }
      return {};
    }
    return Error{Errc::unavailable, "contents were erased while the backup was made",
                 data_dir_.string(), "try again"};
  }

  Result<void> read_head() {
    auto db = Database::open(folder_ / "log.db", Database::Mode::immutable);
    if (!db) return db.error();
    if (auto known = check_log_version(*db); !known) return known;
    const auto newest = Queries(*db).newest_checkpoint();
    if (!newest) return newest.error();
    if (!*newest) {
      return Error{Errc::not_found, "the log has no leaf yet", data_dir_.string(), ""};
    }
    note_ = (*newest)->note;
    std::error_code ignored;
    report_ = {(*newest)->size, (*newest)->root, fs::file_size(folder_ / "log.db", ignored)};
    return {};
  }

  /// Those of the copy and of trees before it.
  Result<void> copy_cosigned() {
    for (const auto& [size, note] : cosigned_checkpoints(data_dir_)) {
      if (size > report_.size) break;
      if (auto kept = keep_cosigned(folder_, size, note); !kept) return kept;
    }
    return {};
  }

  Result<void> write_marks() {
    std::string mark = note_;
    mark.resize(kMarkBytes, '\n');
    if (auto kept = write_file(folder_ / "high-water", mark, 0600); !kept) return kept;
    return write_backup_mark(folder_, {report_.size, report_.root, options_.made_us});
  }

  Result<void> check() {
    const auto verified = verify(folder_, {});
    if (!verified) return verified.error();
    if (verified->verdict == Verdict::valid) return {};
    const std::string what = verified->problems.empty() ? "" : ": " + verified->problems[0].detail;
    return Error{Errc::tampered,
                 "the copy is " + std::string(verdict_name(verified->verdict)) + what,
                 data_dir_.string(), "verify the log"};
  }

  fs::path data_dir_;
  const BackupOptions& options_;
  fs::path folder_;  // until all is there
  Descriptor lock_;  // on it
  std::string note_;
  BackupReport report_;
  bool done_ = false;
};

}  // namespace

Result<BackupReport> back_up(const fs::path& data_dir, const BackupOptions& options) {
  return Backup(data_dir, options).run();
}

}  // namespace verbatim::audit
