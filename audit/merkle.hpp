#pragma once
// The Merkle tree of RFC 6962 section 2.1 (RFC 9162 section 2.1), SHA-256.
//
//   leaf hash = SHA-256(0x00 || entry)        MTH({})     = SHA-256("")
//   node hash = SHA-256(0x01 || left || right)   MTH(D[0:n]) = node(MTH(D[0:k]), MTH(D[k:n])), k the largest
//                                                power of two below n: an odd node is promoted, never doubled

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace verbatim::audit {

[[nodiscard]] Digest leaf_hash(Bytes entry);
[[nodiscard]] Digest node_hash(const Digest& left, const Digest& right);
[[nodiscard]] Digest empty_root();

/// Where the complete subtree `n` of 2^level leaves stands in the order in which appending completes
/// subtrees (Crosby and Wallach 2009, section 3.3): level 0, 0; 0, 1; level 1, 0; level 0, 2; ...
[[nodiscard]] std::uint64_t stored_hash_index(int level, std::uint64_t n);
/// How many complete subtrees a tree of `size` leaves has.
[[nodiscard]] std::uint64_t stored_hash_count(std::uint64_t size);

/// A tree's right edge: all that is needed to append. At most 64 hashes.
class CompactRange {
 public:
  CompactRange() = default;
  /// `edge`: roots of the complete subtrees of a tree of `size` leaves, largest first; one for each bit.
  CompactRange(std::uint64_t size, std::vector<Digest> edge);

  /// Adds a leaf's hash. Every subtree that this completes is passed to `completed`, the leaf first: in
  /// the order of stored_hash_index. Amortised under two hashes a leaf.
  template <class Completed>
  void append(const Digest& leaf, Completed&& completed) {
    Digest hash = leaf;
    completed(hash);
    for (std::uint64_t ones = size_; (ones & 1) != 0; ones >>= 1) {
      hash = node_hash(edge_.back(), hash);
      edge_.pop_back();
      completed(hash);
    }
    edge_.push_back(hash);
    ++size_;
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] Digest root() const;

 private:
  std::uint64_t size_ = 0;
  std::vector<Digest> edge_;  // largest subtree first
};

/// Reads the hash of a complete subtree.
using NodeSource = std::function<Result<Digest>(int level, std::uint64_t n)>;

/// The right edge of the tree of `size` leaves, read from its nodes.
[[nodiscard]] Result<CompactRange> load_edge(const NodeSource& nodes, std::uint64_t size);
/// MTH of the first `size` leaves.
[[nodiscard]] Result<Digest> tree_root(const NodeSource& nodes, std::uint64_t size);

/// PATH(index, D[size]): the leaf's sibling first. `invalid_input` unless index < size.
[[nodiscard]] Result<std::vector<Digest>> make_inclusion_proof(const NodeSource& nodes,
                                                               std::uint64_t index,
                                                               std::uint64_t size);
/// PROOF(first, D[second]). `invalid_input` unless 0 < first <= second.
[[nodiscard]] Result<std::vector<Digest>> make_consistency_proof(const NodeSource& nodes,
                                                                 std::uint64_t first,
                                                                 std::uint64_t second);

/// RFC 9162 section 2.1.3.2. True if the leaf is at `index` in the tree with this root.
[[nodiscard]] bool verify_inclusion(std::uint64_t index, std::uint64_t size, const Digest& leaf,
                                    std::span<const Digest> proof, const Digest& root);
/// RFC 9162 section 2.1.4.2. True if the first tree is a prefix of the second. `first` 0 proves nothing and
/// is false.
[[nodiscard]] bool verify_consistency(std::uint64_t first, std::uint64_t second,
                                      const Digest& first_root, const Digest& second_root,
                                      std::span<const Digest> proof);

}  // namespace verbatim::audit
