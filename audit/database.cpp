#include "audit/database.hpp"

#include "schema/descriptor.hpp"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <utility>

namespace verbatim::audit {

namespace {

/// A file name as a URI, for the `immutable` parameter.
std::string as_uri(const std::filesystem::path& path, bool immutable) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  if (path == ":memory:") return "file::memory:";
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '-' || c == '_' || c == '.';
    if (plain) {
      uri.push_back(c);
    } else {
      uri +=
          {'%', kHex[static_cast<unsigned char>(c) >> 4], kHex[static_cast<unsigned char>(c) & 15]};
    }
  }
  return uri + (immutable ? "?immutable=1" : "");
}

/// SQLite opens what lies beside a database under these names, and would wait for a writer to a pipe.
Result<void> check_beside(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto real = std::filesystem::canonical(path, ignored);  // beside what a link leads to
  if (ignored) return {};
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const std::filesystem::path beside = real.string() + suffix;
    const auto there = std::filesystem::symlink_status(beside, ignored);
    if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) continue;
    return Error{Errc::invalid_input, "what lies beside a database under this name must be a file",
                 beside.string(), "move it away"};
  }
  return {};
}

}  // namespace

void Database::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Result<Database> Database::open(const std::filesystem::path& path, Mode mode) {
  std::error_code ignored;  // its type says as much
  const auto there = std::filesystem::status(path, ignored);
  if (there.type() == std::filesystem::file_type::none) {
    return Error{Errc::storage_failed, "cannot look at the database: " + ignored.message(),
                 path.string(), "may this user read there?"};
  }
  if (mode != Mode::create && !std::filesystem::exists(there)) {
    return Error{Errc::not_found, "there is no such database", path.string(), ""};
  }
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return Error{Errc::invalid_input, "a database is a file, and this is none", path.string(), ""};
  }
  if (auto files = check_beside(path); !files) return files.error();
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  const bool writes = mode == Mode::create || mode == Mode::write;
  flags |= writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  if (mode == Mode::create) {
    flags |= SQLITE_OPEN_CREATE;
    // SQLite gives its journal and WAL the mode that the database has when they are made.
    if (path != ":memory:") {
      const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    }
  }
  sqlite3* raw = nullptr;
  const std::string uri = as_uri(path, mode == Mode::immutable);
  const int code = sqlite3_open_v2(uri.c_str(), &raw, flags, nullptr);
  Database db;
  db.db_.reset(raw);
  db.path_ = path;
  if (code != SQLITE_OK) return db.failure("cannot open the database");
  sqlite3_busy_timeout(raw, kBusyMs);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // One connection, the writer's, checkpoints, and when it says so: see docs/decisions.
  if (!writes) sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  auto set = db.execute("PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY");
  if (!set) return set.error();
  return db;
}

Result<void> Database::execute(std::string_view sql) {
  if (sqlite3_exec(get(), std::string(sql).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return failure("a database statement failed");
  }
  return {};
}

Result<std::int64_t> Database::integer(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const std::string text(sql);
  if (sqlite3_prepare_v2(get(), text.c_str(), -1, &raw, nullptr) != SQLITE_OK) {
    return failure("a database statement failed");
  }
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
  if (sqlite3_step(raw) != SQLITE_ROW) return failure("a database query failed");
  return std::int64_t{sqlite3_column_int64(raw, 0)};
}

Error Database::failure(const std::string& what) const {
  const int code = sqlite3_errcode(get());
  std::string text = what + ": " + sqlite3_errmsg(get());
  const int primary = code & 0xff;
  // SQLITE_ERROR: a table or column is not there. SQLITE_TOOBIG: a record claims more than there can be.
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
      primary == SQLITE_TOOBIG) {
    return Error{Errc::tampered, text, path_.string(), "restore a backup, or verify the log"};
  }
  if (primary == SQLITE_FULL) {
    return Error{Errc::storage_failed, "no space left on the disk", path_.string(),
                 "make room; what was asked for last was not written"};
  }
  return Error{Errc::storage_failed, text, path_.string(), ""};
}

void Rows::Reset::operator()(sqlite3_stmt* statement) const {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

Result<bool> Rows::next() {
  if (!statement_) return **unprepared_;
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return db_->failure("a database statement failed");
  }
}

Result<void> Rows::finish() {
  const auto row = next();
  if (!row) return row.error();
  return {};
}

std::int64_t Rows::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

Bytes Rows::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)};
}

bool Rows::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(db_->get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) unprepared_ = db_->failure("a database statement cannot be prepared");
}

void Statement::bind(int place, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), place, value);
}

void Statement::bind(int place, Bytes value) {
  // A null pointer would bind NULL, not an empty BLOB.
  const void* data = value.empty() ? static_cast<const void*>("") : value.data();
  sqlite3_bind_blob64(statement_.get(), place, data, value.size(), SQLITE_STATIC);
}

void Statement::bind(int place, std::string_view value) {
  const char* data = value.empty() ? "" : value.data();
  sqlite3_bind_text64(statement_.get(), place, data, value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind(int place, const std::optional<std::string>& value) {
  if (value) {
    bind(place, std::string_view(*value));
  } else {
    sqlite3_bind_null(statement_.get(), place);
  }
}

Result<Transaction> Transaction::begin(Database& db) {
  auto begun = db.execute("BEGIN IMMEDIATE");
  if (!begun) return begun.error();
  return Transaction(db);
}

Result<Transaction> Transaction::begin_read(Database& db) {
  auto begun = db.execute("BEGIN");
  if (!begun) return begun.error();
  return Transaction(db);
}

Transaction::~Transaction() {
  if (db_ != nullptr && sqlite3_get_autocommit(db_->get()) == 0) {
    sqlite3_exec(db_->get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<void> Transaction::commit() {
  if (sqlite3_exec(db_->get(), "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK) {
    db_ = nullptr;
    return {};
  }
  Error error = db_->failure("cannot commit");
  // A full disk shows before the commit record is written. After any other failure the record may lie in
  // the file although SQLite says that it does not.
  if ((sqlite3_errcode(db_->get()) & 0xff) != SQLITE_FULL) {
    error.code = Errc::in_doubt;
    error.advice = "restart: the log is reconciled when it is opened";
  }
  return error;
}

}  // namespace verbatim::audit
