#include "audit/merkle.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace verbatim::audit {

namespace {

/// The largest power of two below n. n >= 2.
std::uint64_t split_of(std::uint64_t n) { return std::bit_floor(n - 1); }

/// MTH(D[from:to]), where [from, to) is a node of the tree: `from` is a multiple of every power of two that
/// the recursion asks for.
Result<Digest> range_root(const NodeSource& nodes, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t count = to - from;
  if (std::has_single_bit(count)) {
    const int level = std::countr_zero(count);
    return nodes(level, from >> level);
  }
  const std::uint64_t k = split_of(count);
  const auto left = range_root(nodes, from, from + k);
  if (!left) return left.error();
  const auto right = range_root(nodes, from + k, to);
  if (!right) return right.error();
  return node_hash(*left, *right);
}

/// One step of both verifiers' walk towards the root: past the levels where the node is promoted.
void climb(std::uint64_t& fn, std::uint64_t& sn) {
  if ((fn & 1) == 0) {
    while (fn != 0 && (fn & 1) == 0) {
      fn >>= 1;
      sn >>= 1;
    }
  }
}

}  // namespace

Digest leaf_hash(Bytes entry) {
  static constexpr std::uint8_t kPrefix[] = {0x00};
  return sha256({Bytes(kPrefix), entry});
}

Digest node_hash(const Digest& left, const Digest& right) {
  std::array<std::uint8_t, 65> input;
  input[0] = 0x01;
  std::copy(left.bytes.begin(), left.bytes.end(), input.begin() + 1);
  std::copy(right.bytes.begin(), right.bytes.end(), input.begin() + 33);
  return sha256(Bytes(input));
}

Digest empty_root() { return sha256(Bytes()); }

std::uint64_t stored_hash_index(int level, std::uint64_t n) {
  for (int l = level; l > 0; --l) n = 2 * n + 1;
  std::uint64_t index = 0;
  for (; n > 0; n >>= 1) index += n;
  return index + static_cast<std::uint64_t>(level);
}

std::uint64_t stored_hash_count(std::uint64_t size) {
  // Level l has floor(size / 2^l) complete subtrees.
  std::uint64_t count = 0;
  for (; size > 0; size >>= 1) count += size;
  return count;
}

CompactRange::CompactRange(std::uint64_t size, std::vector<Digest> edge)
    : size_(size), edge_(std::move(edge)) {
  VERBATIM_CHECK(edge_.size() == static_cast<std::size_t>(std::popcount(size)));
}

Digest CompactRange::root() const {
  if (edge_.empty()) return empty_root();
  Digest hash = edge_.back();
  for (auto next = edge_.rbegin() + 1; next != edge_.rend(); ++next) hash = node_hash(*next, hash);
  return hash;
}

Result<CompactRange> load_edge(const NodeSource& nodes, std::uint64_t size) {
  std::vector<Digest> edge;
  std::uint64_t from = 0;
  for (int level = 63; level >= 0; --level) {
    if ((size >> level & 1) == 0) continue;
    auto hash = nodes(level, from >> level);
    if (!hash) return hash.error();
    edge.push_back(*hash);
    from += std::uint64_t{1} << level;
  }
  return CompactRange(size, std::move(edge));
}

Result<Digest> tree_root(const NodeSource& nodes, std::uint64_t size) {
  if (size == 0) return empty_root();
  return range_root(nodes, 0, size);
}

Result<std::vector<Digest>> make_inclusion_proof(const NodeSource& nodes, std::uint64_t index,
                                                 std::uint64_t size) {
  if (index >= size) {
    return Error{Errc::invalid_input,
                 "leaf " + std::to_string(index) + " is not in a tree of " + std::to_string(size),
                 "", ""};
  }
  std::vector<Digest> proof;  // root's child first while walking down
  std::uint64_t from = 0;
  std::uint64_t to = size;
  while (to - from > 1) {
    const std::uint64_t middle = from + split_of(to - from);
    const bool left = index < middle;
    const auto sibling = left ? range_root(nodes, middle, to) : range_root(nodes, from, middle);
    if (!sibling) return sibling.error();
    proof.push_back(*sibling);
    (left ? to : from) = middle;
  }
  std::reverse(proof.begin(), proof.end());
  return proof;
}

Result<std::vector<Digest>> make_consistency_proof(const NodeSource& nodes, std::uint64_t first,
                                                   std::uint64_t second) {
  if (first == 0 || first > second) {
    return Error{
        Errc::invalid_input,
        "no consistency proof from size " + std::to_string(first) + " to " + std::to_string(second),
        "", ""};
  }
  std::vector<Digest> proof;
  std::uint64_t from = 0;
  std::uint64_t to = second;
  while (first != to) {
    const std::uint64_t middle = from + split_of(to - from);
    const bool left = first <= middle;
    const auto sibling = left ? range_root(nodes, middle, to) : range_root(nodes, from, middle);
    if (!sibling) return sibling.error();
    proof.push_back(*sibling);
    (left ? to : from) = middle;
  }
  // The subtree that ends where the first tree does: known to the verifier only if it is that tree.
  if (from != 0) {
    const auto last = range_root(nodes, from, to);
    if (!last) return last.error();
    proof.push_back(*last);
  }
  std::reverse(proof.begin(), proof.end());
  return proof;
}

bool verify_inclusion(std::uint64_t index, std::uint64_t size, const Digest& leaf,
                      std::span<const Digest> proof, const Digest& root) {
  if (index >= size) return false;
  std::uint64_t fn = index;
  std::uint64_t sn = size - 1;
  Digest hash = leaf;
  for (const Digest& p : proof) {
    if (sn == 0) return false;
    if ((fn & 1) != 0 || fn == sn) {
      hash = node_hash(p, hash);
      climb(fn, sn);
    } else {
      hash = node_hash(hash, p);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && hash == root;
}

bool verify_consistency(std::uint64_t first, std::uint64_t second, const Digest& first_root,
                        const Digest& second_root, std::span<const Digest> proof) {
  if (first == 0 || first > second) return false;
  if (first == second) return proof.empty() && first_root == second_root;
  if (proof.empty()) return false;
  // A first tree that is a complete subtree is its own first proof element.
  const bool implied = std::has_single_bit(first);
  const Digest start = implied ? first_root : proof.front();
  const auto rest = implied ? proof : proof.subspan(1);

  std::uint64_t fn = first - 1;
  std::uint64_t sn = second - 1;
  while ((fn & 1) != 0) {
    fn >>= 1;
    sn >>= 1;
  }
  Digest old_hash = start;
  Digest new_hash = start;
  for (const Digest& p : rest) {
    if (sn == 0) return false;
    if ((fn & 1) != 0 || fn == sn) {
      old_hash = node_hash(p, old_hash);
      new_hash = node_hash(p, new_hash);
      climb(fn, sn);
    } else {
      new_hash = node_hash(new_hash, p);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && old_hash == first_root && new_hash == second_root;
}

}  // namespace verbatim::audit
