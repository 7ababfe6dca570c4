#include "audit/node_check.hpp"

#include <utility>

namespace verbatim::audit {

std::string NodeCheck::name(int level, std::uint64_t n) {
  return "tree node " + std::to_string(n) + " of level " + std::to_string(level);
}

void NodeCheck::settle(const Edge& edge, bool node_at_fault, Findings& findings) const {
  if (!edge.doubtful_leaf) return;
  const std::uint64_t index = *edge.doubtful_leaf;
  if (node_at_fault) {
    findings.tampered("node_hash", name(0, index) + " is not the hash of its leaf", index);
  } else {
    findings.tampered("leaf_hash",
                      "leaf " + std::to_string(index) + " does not hash to its tree node", index);
  }
}

void NodeCheck::add(std::optional<Digest> computed, const Stored& stored, Findings& findings) {
  const std::uint64_t index = tree_.size();
  std::uint64_t id = stored_hash_count(index);
  const auto read = [&](int level) {
    auto hash = stored(id++);
    if (!hash) {
      findings.tampered("node_missing", name(level, index >> level) + " is missing", index);
    }
    return hash;
  };

  const auto leaf_node = read(0);
  Edge now;
  now.computed = computed ? *computed : leaf_node.value_or(Digest{});
  now.stored = leaf_node.value_or(now.computed);
  if (now.computed != now.stored) now.doubtful_leaf = index;

  tree_.append(now.computed, [](const Digest&) {});
  int level = 0;
  for (std::uint64_t ones = index; (ones & 1) != 0; ones >>= 1) {
    ++level;
    const Edge left = std::move(edge_.back());
    edge_.pop_back();
    Edge parent;
    parent.computed = node_hash(left.computed, now.computed);
    const auto parent_node = read(level);
    parent.stored = parent_node.value_or(parent.computed);
    const bool agrees = parent_node && parent.stored == parent.computed;
    settle(left, agrees, findings);
    settle(now, agrees, findings);
    if (parent.stored != parent.computed && parent.stored != node_hash(left.stored, now.stored)) {
      findings.tampered("node_hash", name(level, index >> level) + " is not that of its subtrees",
                        index);
    }
    now = std::move(parent);
  }
  edge_.push_back(std::move(now));
}

void NodeCheck::finish(const std::optional<Digest>& signed_root, Findings& findings) {
  const bool leaves_right = signed_root && *signed_root == tree_.root();
  for (const Edge& edge : edge_) settle(edge, leaves_right, findings);
}

}  // namespace verbatim::audit
