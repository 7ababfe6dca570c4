#pragma once
// What one leaf must be, wherever it is stored.

#include "audit/findings.hpp"
#include "audit/leaf.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::audit {

/// A leaf, parsed.
struct ReadLeaf {
  Json json;
  LeafHead head;
  bool answers_pruned = false;  ///< a response whose request was pruned
};
/// Problem: `leaf_format` (not canonical JSON of schema/leaf.md); then there is nothing.
[[nodiscard]] std::optional<ReadLeaf> read_leaf(std::uint64_t index, std::string_view bytes,
                                                Findings& findings);

/// Reads leaves in order and checks their form and how exchanges hang together. Memory grows with the requests that
/// are open at once. Copyable.
class LeafCheck {
 public:
  /// Problems: those of read_leaf(), `exchange` (a response that does not name an open request of its record). Nothing
  /// if the leaf cannot be read.
  std::optional<ReadLeaf> add(std::uint64_t index, std::string_view bytes, Findings& findings);

  /// A leaf that was pruned: what was open before it, nobody knows.
  void pruned(std::uint64_t index);
  [[nodiscard]] std::uint64_t pruned_below() const { return pruned_below_; }
  /// A leaf that is missing: its part in exchanges is unknown.
  void skip() { incomplete_ = true; }
  /// A leaf was missing or could not be read: open_from() may be wrong.
  [[nodiscard]] bool incomplete() const { return incomplete_; }
  /// The oldest request without a response, or `size`.
  [[nodiscard]] std::uint64_t open_from(std::uint64_t size) const {
    return open_.empty() ? size : open_.begin()->first;
  }

 private:
  [[nodiscard]] bool was_pruned(std::uint64_t index) const;

  std::map<std::uint64_t, Uuid> open_;  // requests without response, by index
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pruned_;  // [from, to), in order
  std::set<std::uint64_t> answered_;                             // of the pruned
  std::uint64_t pruned_below_ = 0;
  bool incomplete_ = false;
};

/// `first` has the same id as the later `index`: only an exchange's response may share one, with its request.
/// Problem: `record_id`.
void check_shared_id(std::uint64_t first, std::uint64_t index, const ReadLeaf& leaf,
                     Findings& findings);

}  // namespace verbatim::audit
