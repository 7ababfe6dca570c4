#pragma once
// Compares a stored tree with the one that the leaves give, and tells an edited leaf from an edited node.

#include "audit/findings.hpp"
#include "audit/merkle.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace verbatim::audit {

/// Fed leaf by leaf, in order. Copyable: a chunk of work can be done again.
///
/// A leaf that differs from its node: the node is at fault if the node above agrees with the leaf, else the leaf.
/// A node above that differs from the leaves' tree is reported only if it also differs from the stored nodes below
/// it: one flipped node is one problem, not one for each of its ancestors. Below a missing leaf nothing is
/// known; the first stored node above it stands in.
class NodeCheck {
 public:
  /// `leaf`: the hash of the leaf's bytes; `hashes`: the stored subtrees that it completes.
  void add(const Digest& leaf, Bytes hashes, Findings& findings);
  /// So many leaves that are not there. Takes the same time for many as for few.
  void add_missing(std::uint64_t count = 1);
  /// Settles what only the root can: call at the end, with the root that was signed, if one was.
  void finish(const std::optional<Digest>& signed_root, Findings& findings);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// False while a missing leaf leaves the root unknown.
  [[nodiscard]] bool complete() const;
  /// Of the leaves so far. Means nothing unless complete().
  [[nodiscard]] Digest root() const;

 private:
  /// A complete subtree on the right edge.
  struct Edge {
    bool known = false;                     // its hash follows from leaves, or stands in
    Digest computed, stored;                // by the leaves; by the database
    std::optional<std::uint64_t> doubtful;  // a leaf that differs from its node: which is at fault?
  };
  void add(Edge subtree, int level, Bytes hashes, Findings& findings);
  Edge join(const Edge& left, const Edge& right, int level, const std::optional<Digest>& stored,
            Findings& findings) const;
  static void settle(const Edge& edge, bool node_at_fault, Findings& findings);

  std::uint64_t size_ = 0;
  std::vector<Edge> edge_;  // largest first
};

}  // namespace verbatim::audit
