#pragma once
// Pruning (C2SP tlog-tiles): below a minimum index, a whole number of tiles, leaves and contents go; hashes stay.
//
// The leaf of type `prune` (schema/leaf.md) comes first and decides. Then rows lose their bytes, piece by piece, while
// exchanges go on; a crash in between is mended at the next start. The tree keeps every hash: roots of every size, and
// proofs between them, are what they were. A few leaves below the minimum stay, named by the `prune` leaf: those that say
// whose log it is, what is held, what was pruned, in which configuration and environment the leaves that stay were made, and
// what was erased of those; and requests whose response stays.

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"
#include "schema/uuid.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace verbatim::audit {

class Queries;
struct LeafDraft;

/// A leaf names at most so many that stay.
inline constexpr std::size_t kKeptLeavesMax = 4'000;

/// What the newest `prune` leaf says. Nothing was pruned: all is 0 and empty.
struct Pruned {
  std::uint64_t minimum_index = 0;
  std::set<std::uint64_t> kept;       ///< leaves below it that stay
  std::optional<std::uint64_t> leaf;  ///< that says so

  /// True for a leaf that it says may be gone.
  [[nodiscard]] bool covers(std::uint64_t index) const {
    return index < minimum_index && !kept.contains(index);
  }
};
/// `invalid_input` unless it is as schema/leaf.md says.
[[nodiscard]] Result<Pruned> read_prune(std::uint64_t index, const Json& leaf);
/// Of the newest `prune` leaf below `size`.
[[nodiscard]] Result<Pruned> read_pruned(Queries& queries, std::uint64_t size);

// Of a log in a folder, live or not:
[[nodiscard]] Result<Pruned> read_pruned(const std::filesystem::path& data_dir);
/// RFC 6962 hash of a leaf, which stays when the leaf is pruned.
[[nodiscard]] Result<Digest> stored_leaf_hash(const std::filesystem::path& data_dir,
                                              std::uint64_t index);
/// Indices of a record's leaves, pruned or not. `not_found` if there is none.
[[nodiscard]] Result<std::vector<std::uint64_t>> leaves_with_id(
    const std::filesystem::path& data_dir, const Uuid& id);

/// What would go.
struct PrunePlan {
  std::uint64_t minimum_index = 0;  ///< not above `before.minimum_index`: nothing would
  Pruned before;
  std::vector<std::uint64_t> kept;
  std::uint64_t leaves = 0, contents = 0,
                bytes = 0;           ///< that would go; bytes before the database's own
  std::string stopped_by;            ///< why not more: "leaf 700 is of 2026-11-03"
  std::vector<std::uint64_t> holds;  ///< leaves of the holds in force when this was planned
};
/// Of leaves older than `before_us`. Reads every leaf from the last minimum index on. `unavailable`: a legal hold on
/// everything.
[[nodiscard]] Result<PrunePlan> plan_prune(Queries& queries, std::int64_t before_us,
                                           std::int64_t now_us);
/// The same for a log in a folder, live or not.
[[nodiscard]] Result<PrunePlan> plan_prune(const std::filesystem::path& data_dir,
                                           std::int64_t before_us, std::int64_t now_us);

/// Asks for it, by Appender::append_and_wait(): the process that holds the log makes the rest of the leaf, and when that
/// returns, everything it names is gone. `invalid_input`: nothing would go; `unavailable`: a legal hold.
[[nodiscard]] LeafDraft prune_draft(std::int64_t before_us, const std::string& reason,
                                    const std::string& actor);
/// True for such a draft.
[[nodiscard]] bool prunes(const LeafDraft& draft);
/// The leaf's members.
[[nodiscard]] Json prune_fields(const PrunePlan& plan, const LeafDraft& asked);

}  // namespace verbatim::audit
