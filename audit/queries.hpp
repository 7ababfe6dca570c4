#pragma once
// Reading log.db. Used by the writer when it recovers, by readers, and by verification.

#include "audit/database.hpp"
#include "audit/leaf.hpp"
#include "audit/merkle.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace verbatim::audit {

inline constexpr std::int64_t kLogApplicationId = 0x7662'6c67;  // "vblg"
inline constexpr std::int64_t kLogVersion = 6;

/// A row of `checkpoint`.
struct StoredCheckpoint {
  std::uint64_t size = 0;
  Digest root;
  std::uint64_t open_from = 0;
  std::string note;
};

/// A row of `leaf`.
struct LeafRow {
  std::uint64_t index = 0;
  Bytes id;
  std::string type;
  std::int64_t time_us = 0;
  LeafSummary summary;
  Bytes hashes;  ///< of the subtrees it completes; borrowed
  Bytes bytes;   ///< borrowed: valid during the callback
};

/// A row of `content`.
struct ContentRow {
  std::uint64_t id = 0;  ///< leaf index * 16 + place
  std::int64_t kek = 0;
  int codec = 0;
  bool erased = false;
  Bytes dek, sealed;  ///< borrowed: valid during the callback
};

/// `not_found` if the file has no tables (a crash left it so before the first leaf, or somebody emptied it),
/// `newer_version`, or `tampered` if it is no log.
[[nodiscard]] Result<void> check_log_version(Database& db);

/// Leaves of a time, and what else is known of them: "" is any.
struct LeafSelection {
  std::int64_t since_us = 0, until_us = 0;
  std::string_view type, model, tenant;
  bool newest_first = false;
};

/// A row that belongs to no leaf of the tree: somebody put it there.
struct StrayRow {
  std::string table;
  std::int64_t key = 0;
};

/// The connection must outlive it. `not_found` where a row is missing. The tables' CHECKs stop nobody who holds the file: no
/// query but rows_below() sees a row of before the first leaf. Of those beyond the last rows_beyond() tells.
class Queries {
 public:
  explicit Queries(const Database& db) : db_(db) {}

  [[nodiscard]] Result<std::uint64_t> leaf_count();
  [[nodiscard]] Result<std::optional<StoredCheckpoint>> newest_checkpoint();
  /// Leaves, checkpoints and contents of before the first leaf; at most 100.
  [[nodiscard]] Result<std::vector<StrayRow>> rows_below();
  /// Those of after the first `size` leaves; at most 100.
  [[nodiscard]] Result<std::vector<StrayRow>> rows_beyond(std::uint64_t size);
  /// The first leaf that is stored from `index` on.
  [[nodiscard]] Result<std::optional<std::uint64_t>> next_leaf(std::uint64_t index);
  /// `erased`, saying by which leaf, if it was pruned; `tampered` if its bytes do not hash to its tree node, or are gone
  /// without a pruning.
  [[nodiscard]] Result<std::string> leaf(std::uint64_t index);
  [[nodiscard]] Result<Digest> node(int level, std::uint64_t n);
  /// A source that borrows this object.
  [[nodiscard]] NodeSource nodes() {
    return [this](int level, std::uint64_t n) { return node(level, n); };
  }

  /// Rows with from <= key < to, in order, until the callback says false.
  Result<void> leaves(std::uint64_t from, std::uint64_t to,
                      const std::function<bool(const LeafRow&)>& each);
  /// Checkpoints with from < size <= to.
  Result<void> checkpoints(std::uint64_t from, std::uint64_t to,
                           const std::function<bool(const StoredCheckpoint&, Bytes root)>& each);
  /// Notes of checkpoints, newest first.
  Result<void> newest_checkpoints(const std::function<bool(const std::string& note)>& each);
  Result<void> contents(std::uint64_t from, std::uint64_t to,
                        const std::function<bool(const ContentRow&)>& each);
  Result<void> canonical_outputs(
      const std::function<bool(Bytes key, std::uint64_t leaf, std::int64_t expires_us)>& each);

  [[nodiscard]] Result<std::vector<std::uint64_t>> indices_of(const Uuid& id);
  /// The first leaf with this id. Reads the index alone.
  [[nodiscard]] Result<std::optional<std::uint64_t>> first_index_of(const Uuid& id);
  /// Leaves that say what was erased or is held, from `from` on, in order.
  Result<void> governance(
      std::uint64_t from,
      const std::function<bool(std::uint64_t index, std::string_view bytes)>& each);
  /// Leaves below `size` that say which keys sign the log, in order.
  Result<void> key_changes(
      std::uint64_t size,
      const std::function<bool(std::uint64_t index, std::string_view bytes)>& each);
  /// Leaves that hold time stamps, in order.
  Result<void> timestamps(
      const std::function<bool(std::uint64_t index, std::string_view bytes)>& each);
  /// Leaves by which somebody gave leave to erase before a minimum period ends, in order.
  Result<void> retention_overrides(
      const std::function<bool(std::uint64_t index, std::string_view bytes)>& each);
  /// The newest `prune` leaf below `size`: its index and bytes.
  [[nodiscard]] Result<std::optional<std::pair<std::uint64_t, std::string>>> newest_prune(
      std::uint64_t size);
  /// Leaves with from <= index < to whose bytes are there, in order.
  Result<void> not_pruned(std::uint64_t from, std::uint64_t to,
                          const std::function<bool(std::uint64_t index)>& each);
  /// How many bytes the leaves with from <= index < to have, and each of their contents; those that are there.
  Result<void> sizes(
      std::uint64_t from, std::uint64_t to,
      const std::function<void(std::uint64_t leaf, std::uint64_t bytes, bool content)>& each);
  /// Contents wrapped by this key that are there, from `from` on. Reads every row's head.
  Result<void> content_ids_of_key(std::int64_t kek, std::uint64_t from,
                                  const std::function<bool(std::uint64_t id)>& each);
  /// Leaves by time and index, without their bytes: all that fit, and maybe some of another model or tenant, since one index
  /// is used.
  Result<void> leaves_by_time(const LeafSelection& selection,
                              const std::function<bool(const LeafRow&)>& each);
  /// The exchanges that ended so, and when; the last to end is first. Not for `complete`, which has no index.
  Result<void> ends_of_status(std::string_view status,
                              const std::function<bool(Bytes id, std::int64_t time_us)>& each);
  /// The request and the response of a record, without their bytes.
  [[nodiscard]] Result<std::optional<LeafRow>> request_of(Bytes id);
  [[nodiscard]] Result<std::optional<LeafRow>> response_of(Bytes id);
  [[nodiscard]] Result<std::optional<std::uint64_t>> canonical_output(const Digest& key,
                                                                      std::int64_t now_us);

 private:
  [[nodiscard]] Result<std::optional<LeafRow>> end_of(Bytes id, std::string_view type);

  const Database& db_;
  Statement leaf_count_{db_, R"(
      SELECT coalesce(min(max(idx), 9223372036854775806) + 1, 0) FROM leaf WHERE idx >= 0)"};
  Statement newest_checkpoint_{db_,
                               "SELECT size, root, open_from, note FROM checkpoint WHERE size > 0 "
                               "ORDER BY size DESC LIMIT 1"};
  Statement rows_below_{db_, R"(
      SELECT 'leaf', idx FROM leaf WHERE idx < 0
      UNION ALL SELECT 'checkpoint', size FROM checkpoint WHERE size < 1
      UNION ALL SELECT 'content', id FROM content WHERE id < 0 LIMIT 100)"};
  Statement rows_beyond_{db_, R"(
      SELECT 'leaf', idx FROM leaf WHERE idx >= ?1
      UNION ALL SELECT 'checkpoint', size FROM checkpoint WHERE size > ?1
      UNION ALL SELECT 'content', id FROM content WHERE id >= ?2 LIMIT 100)"};
  Statement next_leaf_{db_, "SELECT min(idx) FROM leaf WHERE idx >= ?1"};
  Statement leaf_{db_, "SELECT bytes, substr(hashes, 1, 32) FROM leaf WHERE idx = ?1"};
  Statement node_{db_, "SELECT substr(hashes, ?2, 32) FROM leaf WHERE idx = ?1"};
  Statement leaves_{db_, R"(
      SELECT idx, id, type, time_us, status, model, route, cache, tenant, hashes, bytes
      FROM leaf
      WHERE idx >= ?1 AND idx < ?2 ORDER BY idx)"};
  Statement checkpoints_{db_, R"(
      SELECT size, root, open_from, note FROM checkpoint
      WHERE size > ?1 AND size <= ?2 ORDER BY size)"};
  Statement newest_checkpoints_{db_,
                                "SELECT note FROM checkpoint WHERE size > 0 ORDER BY size DESC"};
  Statement contents_{db_, R"(
      SELECT id, kek, codec, dek, sealed FROM content WHERE id >= ?1 AND id < ?2 ORDER BY id)"};
  Statement canonical_outputs_{db_, "SELECT key, leaf, expires_us FROM canonical_output"};
  Statement indices_of_{db_, R"(
      SELECT idx FROM leaf WHERE id = ?1 AND idx >= 0 ORDER BY idx LIMIT 1000)"};
  Statement first_index_of_{db_, "SELECT min(idx) FROM leaf WHERE id = ?1 AND idx >= 0"};
  Statement governance_{db_, R"(
      SELECT idx, bytes FROM leaf
      WHERE type IN ('erasure', 'legal_hold', 'legal_hold_released') AND idx >= ?1 ORDER BY idx)"};
  Statement key_changes_{db_, R"(
      SELECT idx, bytes FROM leaf
      WHERE type IN ('key_rotated', 'key_retired') AND idx >= 0 AND idx < ?1 ORDER BY idx)"};
  Statement timestamps_{db_, R"(
      SELECT idx, bytes FROM leaf WHERE type = 'timestamp' AND idx >= 0 ORDER BY idx)"};
  Statement retention_overrides_{db_, R"(
      SELECT idx, bytes FROM leaf WHERE type = 'retention_override' AND idx >= 0 ORDER BY idx)"};
  Statement newest_prune_{db_, R"(
      SELECT idx, bytes FROM leaf
      WHERE type = 'prune' AND idx >= 0 AND idx < ?1 ORDER BY idx DESC LIMIT 1)"};
  Statement not_pruned_{db_, R"(
      SELECT idx FROM leaf WHERE idx >= ?1 AND idx < ?2 AND type != 'pruned' ORDER BY idx)"};
  Statement leaf_sizes_{db_, R"(
      SELECT idx, length(bytes) FROM leaf WHERE idx >= ?1 AND idx < ?2 AND type != 'pruned')"};
  Statement content_sizes_{db_, R"(
      SELECT id, length(sealed) FROM content WHERE id >= ?1 AND id < ?2 AND sealed IS NOT NULL)"};
  Statement content_ids_of_key_{db_, R"(
      SELECT id FROM content WHERE id >= ?2 AND kek = ?1 AND sealed IS NOT NULL ORDER BY id)"};
  // `+idx`: the table's own order must not serve in place of an index. The conditions are those of the indexes in
  // schema/sql/0006_log.sql, word for word: else they do not serve.
#define VERBATIM_LEAVES(condition, order)                                                       \
  "SELECT idx, id, type, time_us, status, model, route, cache, tenant FROM leaf "               \
  "WHERE time_us >= ?1 AND time_us < ?2 AND +idx >= 0 AND " condition " ORDER BY time_us" order \
  ", idx" order
#define VERBATIM_OF_MODEL "type = 'request' AND model = ?3"
#define VERBATIM_OF_TENANT "type = 'request' AND tenant <> 'default' AND tenant = ?3"
#define VERBATIM_OF_TYPE "type NOT IN ('request', 'response') AND type = ?3"
  Statement by_time_{db_, VERBATIM_LEAVES("?3 IN ('', type)", "")};
  Statement by_time_newest_{db_, VERBATIM_LEAVES("?3 IN ('', type)", " DESC")};
  Statement by_model_{db_, VERBATIM_LEAVES(VERBATIM_OF_MODEL, "")};
  Statement by_model_newest_{db_, VERBATIM_LEAVES(VERBATIM_OF_MODEL, " DESC")};
  Statement by_tenant_{db_, VERBATIM_LEAVES(VERBATIM_OF_TENANT, "")};
  Statement by_tenant_newest_{db_, VERBATIM_LEAVES(VERBATIM_OF_TENANT, " DESC")};
  Statement by_type_{db_, VERBATIM_LEAVES(VERBATIM_OF_TYPE, "")};
  Statement by_type_newest_{db_, VERBATIM_LEAVES(VERBATIM_OF_TYPE, " DESC")};
#undef VERBATIM_LEAVES
#undef VERBATIM_OF_MODEL
#undef VERBATIM_OF_TENANT
#undef VERBATIM_OF_TYPE
  Statement ends_of_status_{db_, R"(
      SELECT id, time_us FROM leaf
      WHERE type = 'response' AND status <> 'complete' AND status = ?1 AND +idx >= 0
      ORDER BY time_us DESC)"};
  Statement end_of_{db_, R"(
      SELECT idx, id, type, time_us, status, model, route, cache, tenant FROM leaf
      WHERE id = ?1 AND type = ?2 AND idx >= 0 ORDER BY idx LIMIT 1)"};
  Statement canonical_output_{db_, R"(
      SELECT leaf FROM canonical_output
      WHERE key = ?1 AND leaf >= 0 AND (expires_us = 0 OR expires_us > ?2))"};
};

}  // namespace verbatim::audit
