#pragma once
// SQLite, owned: connections, statements, one run of a statement, transactions.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace verbatim::audit {

inline constexpr int kBusyMs =
    10'000;  ///< how long a statement waits for another connection's lock

/// A connection. One thread at a time.
class Database {
 public:
  enum class Mode {
    create,     ///< read and write; made if absent
    write,      ///< read and write; `not_found` if absent
    read,       ///< read only, beside a writer or not
    immutable,  ///< read only, nobody writes: makes no -wal or -shm file, takes no lock
  };
  /// Errors: `not_found`, `storage_failed`. Whether the file is a database shows at the first statement.
  /// A file that is made has mode 0600, and so have the files that SQLite puts beside it.
  [[nodiscard]] static Result<Database> open(const std::filesystem::path& path, Mode mode);

  [[nodiscard]] sqlite3* get() const { return db_.get(); }
  /// Runs statements that return no rows of interest.
  Result<void> execute(std::string_view sql);
  /// One integer: `PRAGMA user_version` and the like.
  Result<std::int64_t> integer(std::string_view sql);
  /// What the connection's last failure means: `tampered` for a file that is malformed or whose tables are not
  /// those that the statement expects, else `storage_failed`.
  [[nodiscard]] Error failure(const std::string& what) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::unique_ptr<sqlite3, Close> db_;
  std::filesystem::path path_;
};

/// One run of a prepared statement. Resets it on destruction: a query left half-read would hold its read
/// transaction open, and with it an old snapshot of the file. Bound BLOBs and texts must outlive the run.
class Rows {
 public:
  /// `unprepared`: why there is no statement; outlives this object.
  Rows(sqlite3_stmt* statement, const Database* db, const std::optional<Error>* unprepared)
      : statement_(statement), db_(db), unprepared_(unprepared) {}

  /// True while there is a row, false when done.
  Result<bool> next();
  /// Runs a statement that returns no rows.
  Result<void> finish();

  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::uint64_t size(int column) const {
    return static_cast<std::uint64_t>(integer(column));
  }
  /// BLOB or TEXT. Valid until next() or the end of this object.
  [[nodiscard]] Bytes blob(int column) const;
  [[nodiscard]] std::string text(int column) const { return std::string(as_text(blob(column))); }
  [[nodiscard]] bool is_null(int column) const;

 private:
  struct Reset {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Reset> statement_;
  const Database* db_;
  const std::optional<Error>* unprepared_;
};

/// A prepared statement: a member beside its SQL, from a literal, with numbered parameters.
class Statement {
 public:
  template <std::size_t N>
  Statement(const Database& db, const char (&sql)[N]) : db_(&db) {
    prepare(sql);
  }

  /// Starts a run with these values as ?1, ?2, ... A statement that could not be prepared fails at next().
  template <class... Values>
  [[nodiscard]] Rows run(const Values&... values) {
    int place = 0;
    (bind(++place, values), ...);
    return Rows(statement_.get(), db_, &unprepared_);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void prepare(const char* sql);
  void bind(int place, std::int64_t value);
  /// What is larger than a key can be is no other key: the largest.
  void bind(int place, std::uint64_t value) {
    bind(place, static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX)));
  }
  void bind(int place, int value) { bind(place, static_cast<std::int64_t>(value)); }
  void bind(int place, Bytes value);
  void bind(int place, std::string_view value);
  void bind(int place, const std::string& value) { bind(place, std::string_view(value)); }
  void bind(int place, const std::optional<std::string>& value);

  const Database* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::optional<Error> unprepared_;  // kept: the connection forgets it at its next statement
};

/// Rolls back on destruction unless committed.
class Transaction {
 public:
  /// BEGIN IMMEDIATE: a later upgrade from reading to writing could fail without waiting.
  [[nodiscard]] static Result<Transaction> begin(Database& db);
  /// BEGIN: one snapshot for several reads.
  [[nodiscard]] static Result<Transaction> begin_read(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// `storage_failed`: the disk is full, nothing was changed. `in_doubt`: any other failure; the transaction may
  /// or may not be there after the file is opened anew.
  Result<void> commit();

 private:
  explicit Transaction(Database& db) : db_(&db) {}
  Database* db_;
};

}  // namespace verbatim::audit
