#pragma once
// The keys that open contents, and the secrets of keyed hashes: keys.db, wrapped under master.key.
//
// master.key (32 bytes, mode 0600) wraps subjects' keys (KEK); a subject's key wraps the key (DEK) that each of
// his records has. Forgetting a KEK erases all that it wraps, in every copy of the log.

#include "audit/aead.hpp"
#include "audit/database.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace verbatim::audit {

inline constexpr std::int64_t kKeysApplicationId = 0x7662'6b79;  // "vbky"
inline constexpr std::int64_t kKeysVersion = 1;

/// A subject's key, and its number in keys.db.
struct SubjectKey {
  std::int64_t id = 0;
  SymmetricKey key{};
};

/// Thread-safe. Keys that were read are kept in memory, at most 65,536 of them.
class Keys {
 public:
  enum class Mode { create, write, read };
  /// Errors: `not_found` (no keys there), `newer_version`, `tampered` (not a keys database, or a master key of
  /// the wrong form), `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<Keys>> open(const std::filesystem::path& data_dir,
                                                          Mode mode);

  /// Random, made with the database: the log names it in its first leaf.
  [[nodiscard]] const std::string& id() const { return id_; }

  /// `tampered` if master.key is not the one that wrapped what is in keys.db.
  [[nodiscard]] Result<void> check_master();

  /// The key of a subject, made if there is none (and then durable before this returns).
  [[nodiscard]] Result<SubjectKey> subject_key(const std::string& subject);
  /// The number of the key that a subject has now. Nothing if there is none.
  [[nodiscard]] Result<std::optional<std::int64_t>> live_key(const std::string& subject);
  /// Destroys a key: durable, and gone from this object, before this returns. What is recorded of its subject later
  /// gets a new one. Nothing happens if it is gone already.
  Result<void> forget(std::int64_t id);

  /// A key by number. `erased`, `not_found`, `tampered` (does not open with the master key).
  [[nodiscard]] Result<SymmetricKey> key(std::int64_t id);
  /// A secret by name, made if there is none (and then durable before this returns).
  [[nodiscard]] Result<SymmetricKey> secret(const std::string& name);

 private:
  explicit Keys(Database db) : db_(std::move(db)) {}
  Result<void> load();
  Result<SubjectKey> make_subject_key(const std::string& subject);

  std::mutex mutex_;  // one use of the connection, the cipher and the maps at a time
  Database db_;
  Aead aead_;
  SymmetricKey master_{};
  std::string id_;
  std::unordered_map<std::string, SubjectKey> by_subject_;
  std::unordered_map<std::int64_t, SymmetricKey> by_id_;
  std::unordered_map<std::string, SymmetricKey> secrets_;

  Statement insert_meta_{db_, "INSERT INTO meta (name, value) VALUES (?1, ?2)"};
  Statement select_meta_{db_, "SELECT value FROM meta WHERE name = ?1"};
  Statement next_id_{db_, "SELECT coalesce(max(id), 0) + 1 FROM kek"};
  Statement insert_kek_{db_, "INSERT INTO kek (id, subject, wrapped) VALUES (?1, ?2, ?3)"};
  Statement select_subject_{
      db_, "SELECT id, wrapped FROM kek WHERE subject = ?1 AND wrapped IS NOT NULL"};
  Statement select_kek_{db_, "SELECT subject, wrapped FROM kek WHERE id = ?1"};
  Statement forget_kek_{db_, "UPDATE kek SET wrapped = NULL WHERE id = ?1 AND wrapped IS NOT NULL"};
  Statement first_secret_{db_, "SELECT name, wrapped FROM secret ORDER BY name LIMIT 1"};
  Statement insert_secret_{db_, "INSERT INTO secret (name, wrapped) VALUES (?1, ?2)"};
  Statement select_secret_{db_, "SELECT wrapped FROM secret WHERE name = ?1"};
};

/// A new random key.
[[nodiscard]] SymmetricKey random_key();
/// A key sealed under another: 60 bytes.
[[nodiscard]] std::string wrap_key(Aead& aead, const SymmetricKey& wrapping,
                                   const SymmetricKey& key, std::string_view purpose);
[[nodiscard]] Result<SymmetricKey> unwrap_key(Aead& aead, const SymmetricKey& wrapping,
                                              Bytes wrapped, std::string_view purpose);

}  // namespace verbatim::audit
