#include "audit/store.hpp"

#include "audit/migrations.hpp"
#include "audit/schema_check.hpp"

#include <sqlite3.h>
#include <sys/stat.h>

#include <string>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::uint64_t kPageBytes = 16'384;

/// Refuses what the log never does, so that no later mistake in a statement can.
int only_append(void*, int action, const char* table, const char* column, const char*,
                const char*) {
  const std::string_view name = table != nullptr ? table : "";
  // What stays of a leaf that is pruned.
  const std::string_view changed = column != nullptr ? column : "";
  const bool stays =
      changed == "idx" || changed == "id" || changed == "time_us" || changed == "hashes";
  switch (action) {
    case SQLITE_DELETE:
      return name == "canonical_output" ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_ALTER_TABLE:
    case SQLITE_ATTACH:
      return SQLITE_DENY;
    case SQLITE_UPDATE:
      if (name == "leaf") return stays ? SQLITE_DENY : SQLITE_OK;  // and its trigger says more
      return name == "canonical_output" || name == "content" ? SQLITE_OK : SQLITE_DENY;
    default:
      return SQLITE_OK;
  }
}

int remember_wal_pages(void* bytes, sqlite3*, const char*, int pages) {
  *static_cast<std::uint64_t*>(bytes) = static_cast<std::uint64_t>(pages) * kPageBytes;
  return SQLITE_OK;
}

/// Makes the tables in a new file, or brings an older log's up to date, in one transaction. The application id comes
/// with them: a crash leaves an empty file, the older log, or the newer one.
Result<void> migrate(Database& db, bool create) {
  const auto application = db.integer("PRAGMA application_id");
  if (!application) return application.error();
  const auto tables = db.integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  const bool empty = *application == 0 && *tables == 0;
  std::int64_t version = 0;
  if (!create || !empty) {
    if (auto known = check_log_version(db); !known) return known;
    const auto stored = db.integer("PRAGMA user_version");
    if (!stored) return stored.error();
    version = *stored;
  }
  if (version == kLogVersion) return {};
  return db.execute("BEGIN IMMEDIATE;" + log_migrations(version, kLogVersion) +
                    "PRAGMA application_id=" + std::to_string(kLogApplicationId) +
                    "; PRAGMA user_version=" + std::to_string(kLogVersion) + "; COMMIT");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& path, DurabilityMode mode,
                                           bool create) {
  auto db = Database::open(path, create ? Database::Mode::create : Database::Mode::write);
  if (!db) return db.error();
  // Page size before the first table; 16 KiB halves the work per 4 KB content against the default.
  const char* sync = mode == DurabilityMode::relaxed ? "NORMAL" : "FULL";
  auto set = db->execute("PRAGMA page_size=" + std::to_string(kPageBytes) +
                         "; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0"
                         "; PRAGMA journal_size_limit=67108864; PRAGMA recursive_triggers=ON"
                         "; PRAGMA secure_delete=ON"
                         "; PRAGMA cache_size=-32768; PRAGMA synchronous=" +
                         std::string(sync));
  if (!set) return set.error();
  auto migrated = migrate(*db, create);
  if (!migrated) return migrated.error();
  if (auto ours = require_schema(*db, log_migrations(0, kLogVersion)); !ours) return ours.error();
  return std::unique_ptr<Store>(new Store(std::move(*db)));
}

Store::Store(Database db)
    : db_(std::move(db)), places_{place_of(db_.path()), place_of(db_.path().string() + "-wal")} {
  sqlite3_set_authorizer(db_.get(), only_append, nullptr);
  sqlite3_wal_hook(db_.get(), remember_wal_pages, &wal_bytes_);
}

Store::~Store() = default;

Store::Place Store::place_of(std::filesystem::path path) {
  // By name: opening and closing the file here would drop SQLite's locks on it.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {std::move(path), 0, 0};
  return {std::move(path), info.st_dev, info.st_ino};
}

Result<void> Store::check_in_place() const {
  for (const Place& place : places_) {
    const Place now = place_of(place.path);
    if (now.device == place.device && now.inode == place.inode) continue;
    return Error{Errc::storage_failed, "somebody moved, replaced or deleted a file of the log",
                 place.path.string(), "put it back and restart; until then nothing is recorded"};
  }
  return {};
}

Result<void> Store::insert_leaf(std::uint64_t index, const PreparedLeaf& leaf,
                                std::string_view hashes) {
  const LeafSummary& s = leaf.summary;
  return insert_leaf_
      .run(index, Bytes(leaf.id.bytes), leaf.type, leaf.time_us, s.status, s.model, s.route,
           s.cache, s.tenant, as_bytes(hashes), as_bytes(leaf.bytes))
      .finish();
}

Result<void> Store::insert_checkpoint(const StoredCheckpoint& checkpoint) {
  return insert_checkpoint_
      .run(checkpoint.size, checkpoint.root.view(), checkpoint.open_from, checkpoint.note)
      .finish();
}

Result<void> Store::insert_content(std::uint64_t id, std::int64_t kek, int codec,
                                   std::string_view dek, std::string_view sealed) {
  return insert_content_.run(id, kek, codec, as_bytes(dek), as_bytes(sealed)).finish();
}

Result<void> Store::erase_content(std::uint64_t id) {
  if (auto erased = erase_content_.run(id).finish(); !erased) return erased;
  return forget_canonical_.run(id / kContentsMax).finish();
}

Result<void> Store::forget_canonical_below(std::uint64_t leaf) {
  return forget_canonical_below_.run(leaf).finish();
}

Result<void> Store::prune(const std::vector<std::uint64_t>& leaves) {
  auto transaction = begin();
  if (!transaction) return transaction.error();
  for (const std::uint64_t leaf : leaves) {
    if (auto gone = prune_leaf_.run(leaf).finish(); !gone) return gone;
    const std::uint64_t first = leaf * kContentsMax;
    if (auto gone = prune_contents_.run(first, first + kContentsMax).finish(); !gone) return gone;
  }
  if (auto there = check_in_place(); !there) return there;
  return transaction->commit();
}

Result<void> Store::put_canonical(const CanonicalOutput& output, std::uint64_t leaf,
                                  std::int64_t now_us) {
  return put_canonical_.run(output.key.view(), leaf, output.expires_us, now_us).finish();
}

Result<void> Store::checkpoint_wal() {
  const int code =
      sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // Without room the database stays as it is, and the WAL holds what it held.
  const int kind = code & 0xff;
  if (kind == SQLITE_OK || kind == SQLITE_BUSY || kind == SQLITE_FULL) return {};
  return db_.failure("cannot copy the write-ahead log into the database");
}

bool Store::truncate_wal(int wait_ms) {
  sqlite3_busy_timeout(db_.get(), wait_ms);
  const int code =
      sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_busy_timeout(db_.get(), kBusyMs);
  if (code != SQLITE_OK) return false;
  wal_bytes_ = 0;
  return true;
}

}  // namespace verbatim::audit
