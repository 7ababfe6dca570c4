#pragma once
// Leaves (schema/leaf.md): from a draft to canonical JSON, and read back.

#include "audit/content.hpp"
#include "audit/log.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

inline constexpr std::size_t kLeafBytesMax = 65'535;  ///< tlog-tiles: a 16-bit length

/// The members that are stored beside the leaf as well, to look it up by. Absent if the leaf has none.
struct LeafSummary {
  std::optional<std::string> status, model, route, cache, tenant;
  friend bool operator==(const LeafSummary&, const LeafSummary&) = default;
};
[[nodiscard]] LeafSummary summary_of(const Json& leaf);

/// A leaf that needs nothing but its place.
struct PreparedLeaf {
  std::string bytes;  ///< canonical JSON
  Digest hash;        ///< leaf_hash(bytes)
  Uuid id;
  std::int64_t time_us = 0;
  std::string type;
  LeafSummary summary;
  std::optional<std::uint64_t> closes;  ///< response: index of its request leaf
  std::string subject;
  std::vector<PackedContent> contents;
  std::optional<CanonicalOutput> canonical;
  std::vector<std::uint64_t> erases;
};

/// `invalid_input`: a float or too large an integer among the fields, a member that the log sets itself, a bad field
/// name, too many or too large contents, or a leaf of more than 65,535 bytes.
[[nodiscard]] Result<PreparedLeaf> prepare_leaf(LeafDraft draft, const Uuid& id,
                                                std::int64_t time_us, Packer& packer);

/// The members that every leaf has, read back.
struct LeafHead {
  std::string type;
  Uuid id;
  std::int64_t time_us = 0;
  std::vector<ContentReference> contents;
  std::optional<CanonicalOutput> canonical;
};
/// `invalid_input` if a member is missing or has another form than schema/leaf.md says; `newer_version` if `v` is not 1.
[[nodiscard]] Result<LeafHead> read_leaf_head(const Json& leaf);

}  // namespace verbatim::audit
