#pragma once
// The writing end of the log: one per data folder, in one process, with one thread that writes.
//
// Life of a leaf: append() puts a draft into a bounded queue; the writer takes what is there, up to a
// batch; encrypts contents, makes the canonical JSON, extends the Merkle tree, signs one checkpoint, and
// commits all of it in one SQLite transaction; only then do the drafts' callbacks run.
// The leaf's format: schema/leaf.md. The tables: schema/sql/.

#include "schema/canonical_json.hpp"
#include "schema/clock.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"
#include "schema/uuid.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

/// What "durable" means in AppendDone, named in every request leaf.
enum class DurabilityMode {
  strict,   ///< Survives power loss (synchronous=FULL).
  overlap,  ///< The same for the log; the gateway forwards before the request leaf is durable.
  relaxed,  ///< Survives a crash of the process, not of the machine (synchronous=NORMAL).
};

/// A body that a leaf commits to; stored compressed and encrypted beside the tree.
struct Content {
  std::string field;  ///< "request.body" and so on: schema/leaf.md
  std::string bytes;
};

/// Makes this leaf's record the canonical output for a cache key, in the same transaction.
struct CanonicalOutput {
  Digest key;                   ///< Log::cache_key()
  std::int64_t expires_us = 0;  ///< Unix time; 0: never
};

/// A leaf before it has an index.
struct LeafDraft {
  std::string type;
  std::optional<Uuid> id;        ///< The exchange's record id; one is made if absent.
  Json fields = Json::object();  ///< Members beside v, type, id, time, contents. No floats.
  std::vector<Content> contents;
  std::string subject;  ///< Whose key wraps the contents' key; "" is the log's own.
  std::optional<CanonicalOutput> canonical;
  /// Ids of contents (leaf index * 16 + place) that go in the same transaction. Set by Log::erase() alone.
  std::vector<std::uint64_t> erases;
};

/// Where a leaf came to stand.
struct Appended {
  std::uint64_t index = 0;
  std::uint64_t tree_size = 0;  ///< of the checkpoint that was committed with it
  Digest leaf_hash;
  Uuid id;
  std::int64_t time_us = 0;
};

/// Runs on the writer's thread: hand over, do not work there. An error of `in_doubt` means that the log
/// has stopped and the leaf may or may not be there after the next start.
using AppendDone = std::function<void(Result<Appended>)>;

struct EraseRequest;
struct ErasureReport;

/// Anything that can append: the log itself, or a connection to the process that holds it.
class Appender {
 public:
  virtual ~Appender() = default;
  /// Returns once the leaf is durable. On an error nothing was appended, except `in_doubt`.
  [[nodiscard]] virtual Result<Appended> append_and_wait(LeafDraft draft) = 0;
  /// Erases contents, keeping every proof (audit/erasure.hpp). What was erased before an error stays erased, each with
  /// its leaf; asking again goes on. Errors: `unavailable` (a legal hold, an exchange that has not ended),
  /// `not_found`, and those of append_and_wait().
  [[nodiscard]] virtual Result<ErasureReport> erase(const EraseRequest& request) = 0;
};

/// Told, in one line, what an operator must know of the log that was opened. Empty: nobody asks.
using Warn = std::function<void(const std::string&)>;

struct LogOptions {
  std::filesystem::path data_dir;
  DurabilityMode mode = DurabilityMode::strict;
  std::string origin;                   ///< Used when the log is created; "" makes one up.
  std::string key;                      ///< The same: a pkcs11: URI; "" makes a seed in `log.key`.
  std::size_t queue_drafts_max = 4096;  ///< More wait: append() then fails with `unavailable`.
  std::size_t queue_bytes_max = 256u << 20;
  bool create = true;  ///< Make the log if the folder has none.
  bool listen = true;  ///< Serve append.sock for other commands.
  Warn warn;
};

/// The log, open for writing. All functions are thread-safe.
class Log final : public Appender {
 public:
  /// Takes the folder's exclusive lock, recovers (recomputes the tree's right edge and compares it with the
  /// newest checkpoint, says by a `restored` leaf and to `warn` if the folder is a backup that nobody went on from,
  /// closes requests that have no response by an `interrupted` leaf each), appends a `start` leaf and listens on
  /// `append.sock`.
  /// Errors: `unavailable` (another process holds it), `newer_version`, `tampered`, `storage_failed`.
  /// `clock` must outlive the log.
  [[nodiscard]] static Result<std::unique_ptr<Log>> open(const LogOptions& options,
                                                         const Clock& clock);
  /// Appends a `stop` leaf, commits what is queued, and releases the lock.
  ~Log() override;

  /// Queues a draft. `done` runs exactly once, later, on the writer's thread; also with an error when the
  /// queue is full (`unavailable`) or the log has stopped (`storage_failed`, `in_doubt`).
  void append(LeafDraft draft, AppendDone done);

  [[nodiscard]] Result<Appended> append_and_wait(LeafDraft draft) override;
  [[nodiscard]] Result<ErasureReport> erase(const EraseRequest& request) override;

  /// False once a commit has failed: nothing can be appended until the process is started anew (or, after
  /// a refusal that changed nothing, such as a full disk, until a later append succeeds).
  [[nodiscard]] bool healthy() const;

  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string vkey() const;
  [[nodiscard]] std::filesystem::path data_dir() const;

  /// Keyed hash (per-tenant secret, which never leaves keys.db) of what identifies a canonical output.
  [[nodiscard]] Result<Digest> cache_key(std::string_view tenant, Bytes preimage);
  /// Keyed hash of a person or credential, hexadecimal: equal for equal input, useless without the log's key.
  [[nodiscard]] std::string subject_handle(std::string_view credential);
  /// The record that holds the canonical output for a key, if there is one that has not expired.
  [[nodiscard]] std::optional<Uuid> canonical_output(const Digest& key) const;

  /// How many erasures this object has recorded. Who keeps contents in memory forgets them when it grows: it has
  /// grown before the eraser is told that all is done.
  [[nodiscard]] std::uint64_t erasures() const;

  struct Stats {
    std::uint64_t leaves = 0, commits = 0, queue_drafts = 0, queue_bytes = 0, wal_bytes = 0;
    std::int64_t last_commit_us = 0;  ///< how long the last commit took
    bool healthy = true;
  };
  [[nodiscard]] Stats stats() const;

 private:
  class Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The log itself if nobody holds it (kept open by the returned object, and listening), else a connection to `append.sock`;
/// when its holder ends, the same again. `clock` must outlive it. `not_found` when the folder has no log.
[[nodiscard]] Result<std::unique_ptr<Appender>> open_appender(const std::filesystem::path& data_dir,
                                                              const Clock& clock,
                                                              const Warn& warn = {});

}  // namespace verbatim::audit
