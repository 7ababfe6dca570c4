#pragma once
// Compares a stored tree with the one that the leaves give, and tells an edited leaf from an edited node.

#include "audit/findings.hpp"
#include "audit/merkle.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace verbatim::audit {

/// Fed leaf by leaf, in order. Copyable: a chunk of work can be done again.
///
/// A leaf that differs from its node: the node is at fault if the node above agrees with the leaf, else the leaf.
/// A node above that differs from the leaves' tree is reported only if it also differs from the stored nodes below
/// it: one flipped node is one problem, not one for each of its ancestors.
class NodeCheck {
 public:
  using Stored = std::function<std::optional<Digest>(std::uint64_t node_id)>;

  /// `computed`: the hash of the leaf's bytes; nothing if the leaf is missing, and its node then stands in for it.
  void add(std::optional<Digest> computed, const Stored& stored, Findings& findings);
  /// Settles what only the root can: call at the end, with the root that was signed, if one was.
  void finish(const std::optional<Digest>& signed_root, Findings& findings);

  [[nodiscard]] const CompactRange& tree() const { return tree_; }

 private:
  struct Edge {
    Digest computed, stored;
    std::optional<std::uint64_t> doubtful_leaf;  // level 0 only: not yet known which is at fault
  };
  void settle(const Edge& edge, bool node_at_fault, Findings& findings) const;
  static std::string name(int level, std::uint64_t n);

  CompactRange tree_;       // of the leaves
  std::vector<Edge> edge_;  // the same subtrees, as stored too
};

}  // namespace verbatim::audit
