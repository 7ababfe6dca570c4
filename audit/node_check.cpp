#include "audit/node_check.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::audit {

namespace {

std::string name(int level, std::uint64_t n) {
  return "tree node " + std::to_string(n) + " of level " + std::to_string(level);
}

/// The i-th hash of a row.
std::optional<Digest> hash_at(Bytes hashes, int i) {
  const std::size_t from = 32 * static_cast<std::size_t>(i);
  if (from + 32 > hashes.size()) return std::nullopt;
  Digest digest;
  std::copy_n(hashes.begin() + static_cast<std::ptrdiff_t>(from), 32, digest.bytes.begin());
  return digest;
}

}  // namespace

void NodeCheck::settle(const Edge& edge, bool node_at_fault, Findings& findings) {
  if (!edge.doubtful) return;
  const std::uint64_t index = *edge.doubtful;
  if (node_at_fault) {
    findings.tampered("node_hash", name(0, index) + " is not the hash of its leaf", index);
  } else {
    findings.tampered("leaf_hash",
                      "leaf " + std::to_string(index) + " does not hash to its tree node", index);
  }
}

void NodeCheck::add(const Digest& leaf, Bytes hashes, Findings& findings) {
  std::size_t needed = 32;
  for (std::uint64_t ones = size_; (ones & 1) != 0; ones >>= 1) needed += 32;
  if (hashes.size() != needed) {
    findings.tampered("node_missing",
                      "leaf " + std::to_string(size_) + " has " +
                          std::to_string(hashes.size() / 32) + " tree nodes, not " +
                          std::to_string(needed / 32),
                      size_);
  }
  Edge edge;
  edge.known = true;
  edge.computed = leaf;
  edge.stored = hash_at(hashes, 0).value_or(leaf);
  if (edge.computed != edge.stored) edge.doubtful = size_;
  add(edge, 0, hashes, findings);
}

void NodeCheck::add_missing(std::uint64_t count) {
  Findings none;
  while (count > 0) {
    // The largest subtree that begins here and lacks all its leaves.
    int level = 0;
    while ((size_ >> level & 1) == 0 && count >> level > 1) ++level;
    add(Edge(), level, {}, none);
    count -= std::uint64_t{1} << level;
  }
}

void NodeCheck::add(Edge now, int level, Bytes hashes, Findings& findings) {
  const std::uint64_t leaves = std::uint64_t{1} << level;
  for (std::uint64_t ones = size_ >> level; (ones & 1) != 0; ones >>= 1) {
    ++level;
    now = join(edge_.back(), now, level, hash_at(hashes, level), findings);
    edge_.pop_back();
  }
  edge_.push_back(now);
  size_ += leaves;
}

NodeCheck::Edge NodeCheck::join(const Edge& left, const Edge& right, int level,
                                const std::optional<Digest>& stored, Findings& findings) const {
  Edge parent;
  parent.known = left.known && right.known;
  if (!parent.known) {
    parent.known = stored.has_value();
    parent.computed = parent.stored = stored.value_or(Digest{});
    settle(left, false, findings);
    settle(right, false, findings);
    return parent;
  }
  parent.computed = node_hash(left.computed, right.computed);
  parent.stored = stored.value_or(parent.computed);
  const bool agrees = stored && *stored == parent.computed;
  settle(left, agrees, findings);
  settle(right, agrees, findings);
  if (!agrees && stored && *stored != node_hash(left.stored, right.stored)) {
    findings.tampered("node_hash", name(level, size_ >> level) + " is not that of its subtrees",
                      size_);
  }
  return parent;
}

void NodeCheck::finish(const std::optional<Digest>& signed_root, Findings& findings) {
  const bool leaves_right = signed_root && complete() && *signed_root == root();
  for (const Edge& edge : edge_) settle(edge, leaves_right, findings);
}

bool NodeCheck::complete() const {
  return std::all_of(edge_.begin(), edge_.end(), [](const Edge& edge) { return edge.known; });
}

Digest NodeCheck::root() const {
  std::vector<Digest> edge;
  for (const Edge& subtree : edge_) edge.push_back(subtree.computed);
  return CompactRange(size_, std::move(edge)).root();
}

}  // namespace verbatim::audit
