#pragma once
// Writing log.db: one connection, of one process, ever. It alone checkpoints the WAL.
//
// SQLite before 3.51.3 can lose data when two connections checkpoint a WAL at once, and Debian 12 has 3.40.1:
// hence the single writer, no automatic checkpoints, and readers that never checkpoint.

#include "audit/database.hpp"
#include "audit/leaf.hpp"
#include "audit/queries.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::audit {

/// Not thread-safe: the log's writer owns it.
class Store {
 public:
  /// Opens the log's database and brings its tables up to date; makes it if `create`.
  /// Errors: `not_found`, `newer_version`, `tampered` (no log, or malformed), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::filesystem::path& path,
                                                           DurabilityMode mode, bool create);
  ~Store();

  /// Everything that follows, until commit(), becomes durable together or not at all.
  [[nodiscard]] Result<Transaction> begin() { return Transaction::begin(db_); }
  /// `hashes`: of the subtrees that the leaf completes, one after another.
  Result<void> insert_leaf(std::uint64_t index, const PreparedLeaf& leaf, std::string_view hashes);
  Result<void> insert_checkpoint(const StoredCheckpoint& checkpoint);
  Result<void> insert_content(std::uint64_t id, std::int64_t kek, int codec, std::string_view dek,
                              std::string_view sealed);
  /// Sets a content's BLOBs to NULL, and takes its record out of the cache.
  Result<void> erase_content(std::uint64_t id);
  /// Takes records of leaves below `leaf` out of the cache.
  Result<void> forget_canonical_below(std::uint64_t leaf);
  /// These leaves lose their bytes and contents, together: a transaction of its own. `in_doubt` as for commit().
  Result<void> prune(const std::vector<std::uint64_t>& leaves);
  /// The first record for a key stays until it expires.
  Result<void> put_canonical(const CanonicalOutput& output, std::uint64_t leaf,
                             std::int64_t now_us);

  /// `storage_failed` once log.db or its WAL is no longer the file that this object writes to: moved, replaced or
  /// deleted. What is written from then on would be lost with the process.
  [[nodiscard]] Result<void> check_in_place() const;

  [[nodiscard]] Queries& queries() { return queries_; }
  [[nodiscard]] std::uint64_t wal_bytes() const { return wal_bytes_; }
  /// Copies the WAL into the database as far as readers allow, without waiting for them. On an error the
  /// database's pages may be lost though later syncs succeed: do not write any more.
  Result<void> checkpoint_wal();
  /// Copies all of it and empties the WAL. False if a reader was in the way for `wait_ms`.
  bool truncate_wal(int wait_ms = 0);

 private:
  explicit Store(Database db);

  /// Which file a name leads to.
  struct Place {
    std::filesystem::path path;
    dev_t device = 0;
    ino_t inode = 0;
  };
  static Place place_of(std::filesystem::path path);

  Database db_;
  Place places_[2];  // of log.db and of its WAL
  std::uint64_t wal_bytes_ = 0;
  Queries queries_{db_};
  // OR FAIL, here and in the triggers: a refusal rolls the whole transaction back anyway, and the default would have
  // SQLite keep a savepoint for each row (0001_log.sql).
  Statement insert_leaf_{db_, R"(
      INSERT OR FAIL INTO leaf (idx, id, type, time_us, status, model, route, cache, tenant, hashes, bytes)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11))"};
  Statement insert_checkpoint_{
      db_, "INSERT OR FAIL INTO checkpoint (size, root, open_from, note) VALUES (?1, ?2, ?3, ?4)"};
  Statement insert_content_{
      db_, "INSERT OR FAIL INTO content (id, kek, codec, dek, sealed) VALUES (?1, ?2, ?3, ?4, ?5)"};
  Statement erase_content_{db_, "UPDATE content SET dek = NULL, sealed = NULL WHERE id = ?1"};
  Statement forget_canonical_{db_, "DELETE FROM canonical_output WHERE leaf = ?1"};
  Statement forget_canonical_below_{db_, "DELETE FROM canonical_output WHERE leaf < ?1"};
  Statement prune_leaf_{db_, R"(
      UPDATE leaf SET type = 'pruned', status = NULL, model = NULL, route = NULL, cache = NULL,
                      tenant = NULL, bytes = x''
      WHERE idx = ?1)"};
  Statement prune_contents_{db_, R"(
      UPDATE content SET dek = NULL, sealed = NULL WHERE id >= ?1 AND id < ?2 AND sealed IS NOT NULL)"};
  Statement put_canonical_{db_, R"(
      INSERT INTO canonical_output (key, leaf, expires_us) VALUES (?1, ?2, ?3)
      ON CONFLICT (key) DO UPDATE SET leaf = ?2, expires_us = ?3
      WHERE expires_us != 0 AND expires_us <= ?4)"};
};

}  // namespace verbatim::audit
