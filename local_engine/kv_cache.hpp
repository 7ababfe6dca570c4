#pragma once
// Keys and values in blocks of 256 positions, shared between sequences that begin alike.

#include "kernels/attention/attention.hpp"
#include "local_engine/token.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

/// Keys and values of 256 consecutive positions in all layers: (layers, k then v, kv_page_floats), in the memory of whoever
/// computes with them, the host's or a device's. A block that a sequence has filled is never written again, so that
/// others may read it.
class KvBlock {
 public:
  KvBlock(std::shared_ptr<std::byte> memory, std::size_t page_floats)
      : memory_(std::move(memory)), page_floats_(page_floats) {}
  [[nodiscard]] kernels::KvPage page(std::size_t layer) const {
    float* const first = reinterpret_cast<float*>(memory_.get());
    return {first + 2 * layer * page_floats_, first + (2 * layer + 1) * page_floats_};
  }

 private:
  friend class KvPool;
  std::shared_ptr<std::byte> memory_;
  std::size_t page_floats_;
};

/// Where blocks come from and go back to: memory that was used a moment ago costs nothing, while the system clears every
/// page that it gives. Blocks may outlive the pool, and end on any thread.
class KvPool {
 public:
  /// Memory for a block, aligned to 64, not initialised. Throws when there is none: std::bad_alloc, DeviceFailure.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  [[nodiscard]] static Allocate host_memory();

  KvPool(std::size_t layers, std::size_t page_floats, Allocate allocate = host_memory());
  [[nodiscard]] std::size_t block_bytes() const { return shelf_->block_bytes; }
  /// Not initialised: it holds what a sequence before left there, which attention never reads.
  [[nodiscard]] std::shared_ptr<KvBlock> take() const;
  /// How many wait to be used again.
  [[nodiscard]] std::size_t idle_blocks() const;

 private:
  /// Blocks that nobody uses, as many as kIdleBytesMax allows and one at least.
  struct Shelf {
    std::size_t block_bytes = 0;
    std::mutex mutex;
    std::vector<std::shared_ptr<std::byte>> idle;
  };
  std::shared_ptr<Shelf> shelf_;
  std::size_t page_floats_;
  Allocate allocate_;
};

/// The blocks of one sequence, by layer as the attention kernel wants them.
class SequenceKv {
 public:
  explicit SequenceKv(std::size_t layers) : pages_(layers) {}
  void append(std::shared_ptr<KvBlock> block);
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] const std::shared_ptr<KvBlock>& block(std::size_t index) const {
    return blocks_[index];
  }
  [[nodiscard]] const kernels::KvPage* pages(std::size_t layer) const {
    return pages_[layer].data();
  }
  void clear();

 private:
  std::vector<std::shared_ptr<KvBlock>> blocks_;
  std::vector<std::vector<kernels::KvPage>> pages_;  // (layers, blocks)
};

/// Full blocks by the token ids of their whole prefix: a tree in which each edge is 256 ids,
/// compared as ids and not by a hash, so that a hit is never another text's. One thread. The least
/// recently used leaf goes first.
class PrefixCache {
 public:
  /// The blocks of the longest known prefix of `ids`, in order; at most `blocks_max`.
  [[nodiscard]] std::vector<std::shared_ptr<KvBlock>> find(std::span<const TokenId> ids,
                                                           std::size_t blocks_max);
  /// Enters block `index` of `ids`, whose predecessors should be known; does nothing when one is
  /// not, or when the block is known already.
  void insert(std::span<const TokenId> ids, std::size_t index, std::shared_ptr<KvBlock> block);
  /// Drops the least recently used block that no sequence holds and no other block follows. False
  /// when there is none.
  bool evict_one();
  [[nodiscard]] std::size_t blocks() const { return blocks_; }
  /// Blocks that only the cache holds.
  [[nodiscard]] std::size_t idle_blocks() const;

 private:
  struct Node {
    std::shared_ptr<KvBlock> block;
    std::uint64_t used = 0;
    std::map<std::vector<TokenId>, std::unique_ptr<Node>> children;
  };
  using Children = std::map<std::vector<TokenId>, std::unique_ptr<Node>>;
  struct Leaf {
    Children* siblings = nullptr;
    Children::iterator at;
  };
  static void find_leaf(Children& children, Leaf& best);
  static std::size_t count_idle(const Children& children);

  Children roots_;
  std::uint64_t clock_ = 0;  // counts uses, so that eviction does not depend on time
  std::size_t blocks_ = 0;
};

}  // namespace verbatim::local_engine
