#pragma once
// Erasure and legal holds: which contents may go, and the leaves that say so (schema/leaf.md).
//
// A leaf never goes. Its contents do, in the transaction that appends the `erasure` leaf which names each of them:
// whatever happens to the process, either both are there or neither.

#include "schema/canonical_json.hpp"
#include "schema/error.hpp"
#include "schema/uuid.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

class Queries;

/// Whom an erasure or a hold is about: one of the three.
struct Scope {
  std::optional<Uuid> record;
  std::string subject;  ///< handle: Log::subject_handle()
  bool all = false;     ///< holds only
};
[[nodiscard]] Json scope_json(const Scope& scope);
/// `invalid_input` unless it names exactly one.
[[nodiscard]] Result<Scope> read_scope(const Json& json);

struct EraseRequest {
  Scope scope;
  std::string reason;
  std::string actor;
};

/// `invalid_input` unless there is a reason, and neither text is longer than 1,024 bytes.
[[nodiscard]] Result<void> check_reason(const std::string& reason, const std::string& actor);

struct ErasureReport {
  std::uint64_t contents = 0;  ///< erased by this request
  std::vector<std::uint64_t>
      leaves;                  ///< the `erasure` leaves that name them; none if nothing was left
  bool key_destroyed = false;  ///< the subject's key
  /// False: somebody read the log all the while, and the WAL still holds pages from before. Ask again.
  bool wal_emptied = false;
};

/// A legal hold in force.
struct Hold {
  std::uint64_t index = 0;
  Uuid id;
  std::int64_t time_us = 0;
  Scope scope;
  std::string reason, actor;
};
/// Those added and not released, oldest first.
[[nodiscard]] Result<std::vector<Hold>> active_holds(Queries& queries);

/// `unavailable`, naming the hold, if one forbids to erase this. A hold on the record of a cache hit also holds the record
/// whose answer it gave.
[[nodiscard]] Result<void> check_holds(Queries& queries, const Scope& scope);

/// Which contents an `erasure` leaf names.
struct ErasedContents {
  std::uint64_t leaf = 0;
  std::vector<std::string> fields;
};
/// `invalid_input` if the leaf's `erased` is not as schema/leaf.md says.
[[nodiscard]] Result<std::vector<ErasedContents>> read_erased(const Json& leaf);
[[nodiscard]] Json erased_json(const std::vector<ErasedContents>& erased);

/// An erasure ready to be appended.
struct ErasureStep {
  std::vector<ErasedContents> erased;
  std::vector<std::uint64_t> content_ids;
};
/// One leaf names at most this many leaves' contents: it must stay below 65,535 bytes.
inline constexpr std::size_t kErasedLeavesMax = 400;

/// The contents of a record that are still there. `not_found` (no such record), `unavailable` (its exchange has not
/// ended).
[[nodiscard]] Result<ErasureStep> contents_of_record(Queries& queries, const Uuid& record);
/// Those of `ids` (ascending, from at most kErasedLeavesMax leaves) that are still there.
[[nodiscard]] Result<ErasureStep> contents_named(Queries& queries,
                                                 const std::vector<std::uint64_t>& ids);
/// Contents under a subject's key.
struct SubjectContents {
  std::vector<std::uint64_t> ids;  ///< ascending, of at most kErasedLeavesMax leaves
  bool more = false;               ///< there are others behind them
};
/// Those from content `from` on. Reads rows' heads.
[[nodiscard]] Result<SubjectContents> contents_under_key(Queries& queries, std::int64_t kek,
                                                         std::uint64_t from);
/// Which `erasure` leaf names a content. Reads each of them once; memory grows with what was erased. One thread at a time.
class ErasureIndex {
 public:
  /// Nothing if none does, as far as the log goes that `queries` sees.
  [[nodiscard]] Result<std::optional<std::uint64_t>> find(Queries& queries, std::uint64_t leaf,
                                                          const std::string& field);

 private:
  struct Named {
    std::uint64_t leaf, field, by;  // field: number of its name
    friend auto operator<=>(const Named&, const Named&) = default;
  };
  Result<void> read_on(Queries& queries);

  std::map<std::string, std::uint64_t> fields_;
  std::vector<Named> named_;  // sorted
  std::uint64_t next_ = 0;    // erasures below this leaf have been read
};

}  // namespace verbatim::audit
