#pragma once
// What one leaf must be, wherever it is stored.

#include "audit/findings.hpp"
#include "audit/leaf.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::audit {

/// A leaf, parsed.
struct ReadLeaf {
  Json json;
  LeafHead head;
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
  void pruned(std::uint64_t index) { pruned_below_ = index + 1; }
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
  std::map<std::uint64_t, Uuid> open_;  // requests without response, by index
  std::uint64_t pruned_below_ = 0;
  bool incomplete_ = false;
};

/// `first` has the same id as the later `index`: only an exchange's response may share one. Problem: `record_id`.
void check_shared_id(std::uint64_t first, std::uint64_t index, const LeafHead& head,
                     Findings& findings);

}  // namespace verbatim::audit
