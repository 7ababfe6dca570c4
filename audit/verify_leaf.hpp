#pragma once
// What one leaf must be, wherever it is stored.

#include "audit/findings.hpp"
#include "audit/leaf.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace verbatim::audit {

/// Reads leaves in order and checks their form and how exchanges hang together. Memory grows with the requests that
/// are open at once. Copyable.
class LeafCheck {
 public:
  struct Read {
    Json json;
    LeafHead head;
  };
  /// Problems: `leaf_format` (not canonical JSON of schema/leaf.md), `exchange` (a response that does not name an open
  /// request of its record). Nothing if the leaf cannot be read.
  std::optional<Read> add(std::uint64_t index, std::string_view bytes, Findings& findings);

  /// A leaf that is missing: its part in exchanges is unknown.
  void skip() { incomplete_ = true; }
  /// A leaf was missing or could not be read: open_from() may be wrong.
  [[nodiscard]] bool incomplete() const { return incomplete_; }
  /// Some leaf says that contents were erased.
  [[nodiscard]] bool erasure_seen() const { return erasure_seen_; }

  /// The oldest request without a response, or `size`.
  [[nodiscard]] std::uint64_t open_from(std::uint64_t size) const {
    return open_.empty() ? size : open_.begin()->first;
  }

 private:
  std::map<std::uint64_t, Uuid> open_;  // requests without response, by index
  bool incomplete_ = false;
  bool erasure_seen_ = false;
};

}  // namespace verbatim::audit
