#include "audit/read_connection.hpp"

namespace verbatim::audit {

Result<std::unique_ptr<ReadConnection>> ReadConnection::open(const std::filesystem::path& path) {
  std::unique_ptr<ReadConnection> connection(new ReadConnection(path));
  if (auto ready = connection->connect(); !ready) return ready.error();
  return connection;
}

ReadConnection::State ReadConnection::look() const {
  // By name only: opening and closing the file here would drop SQLite's locks on it.
  State state;
  struct stat info {};
  // A writer keeps both files, also while the WAL is empty; without one, only a WAL that a crash left matters.
  struct stat shared {};
  state.wal = ::stat((path_.string() + "-wal").c_str(), &info) == 0 &&
              (info.st_size > 0 || ::stat((path_.string() + "-shm").c_str(), &shared) == 0);
  info = {};
  if (::stat(path_.c_str(), &info) == 0) {
    state.inode = info.st_ino;
    state.bytes = info.st_size;
    state.changed_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  }
  return state;
}

Result<void> ReadConnection::connect() {
  if (db_ && !stale()) return {};
  queries_.reset();
  db_.reset();
  state_ = look();
  immutable_ = !state_.wal;
  auto db = Database::open(path_, immutable_ ? Database::Mode::immutable : Database::Mode::read);
  if (!db) return db.error();
  db_ = std::make_unique<Database>(std::move(*db));
  if (auto version = check_log_version(*db_); !version) {
    db_.reset();
    return version;
  }
  queries_ = std::make_unique<Queries>(*db_);
  return {};
}

}  // namespace verbatim::audit
