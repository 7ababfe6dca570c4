#include "local_engine/kv_cache.hpp"

#include "kernels/memory.hpp"
#include "schema/error.hpp"

#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::size_t kIdleBytesMax = 128u << 20;

std::vector<TokenId> edge(std::span<const TokenId> ids, std::size_t index) {
  const auto part = ids.subspan(index * kernels::kBlock, kernels::kBlock);
  return {part.begin(), part.end()};
}

}  // namespace

// 256 positions of f32 are a multiple of 64 bytes in every page, so each page is aligned when the first is.
KvPool::KvPool(std::size_t layers, std::size_t page_floats, Allocate allocate)
    : shelf_(std::make_shared<Shelf>()), page_floats_(page_floats), allocate_(std::move(allocate)) {
  shelf_->block_bytes = 2 * layers * page_floats * sizeof(float);
}

KvPool::Allocate KvPool::host_memory() {
  return [](std::size_t bytes) {
    const auto memory = std::make_shared<kernels::AlignedMemory>(bytes);
    return std::shared_ptr<std::byte>(memory, memory->get());
  };
}

std::shared_ptr<KvBlock> KvPool::take() const {
  std::shared_ptr<std::byte> memory;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->idle.empty()) {
      memory = std::move(shelf_->idle.back());
      shelf_->idle.pop_back();
    }
  }
  if (memory == nullptr) memory = allocate_(shelf_->block_bytes);
  return {
      new KvBlock(std::move(memory), page_floats_), [shelf = shelf_](KvBlock* block) {
        const std::unique_ptr<KvBlock> ended(block);
        const std::lock_guard lock(shelf->mutex);
        if ((shelf->idle.size() + 1) * shelf->block_bytes <= kIdleBytesMax || shelf->idle.empty())
          shelf->idle.push_back(std::move(block->memory_));
      }};
}

std::size_t KvPool::idle_blocks() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->idle.size();
}

void SequenceKv::append(std::shared_ptr<KvBlock> block) {
  for (std::size_t layer = 0; layer < pages_.size(); ++layer)
    pages_[layer].push_back(block->page(layer));
  blocks_.push_back(std::move(block));
}

void SequenceKv::clear() {
  blocks_.clear();
  for (auto& pages : pages_) pages.clear();
}

std::vector<std::shared_ptr<KvBlock>> PrefixCache::find(std::span<const TokenId> ids,
                                                        std::size_t blocks_max) {
  std::vector<std::shared_ptr<KvBlock>> found;
  Children* children = &roots_;
  ++clock_;
  while (found.size() < blocks_max && (found.size() + 1) * kernels::kBlock <= ids.size()) {
    const auto at = children->find(edge(ids, found.size()));
    if (at == children->end()) break;
    at->second->used = clock_;
    found.push_back(at->second->block);
    children = &at->second->children;
  }
  return found;
}

void PrefixCache::insert(std::span<const TokenId> ids, std::size_t index,
                         std::shared_ptr<KvBlock> block) {
  Children* children = &roots_;
  for (std::size_t i = 0; i < index; ++i) {
    const auto at = children->find(edge(ids, i));
    if (at == children->end()) return;
    children = &at->second->children;
  }
  auto [at, added] = children->try_emplace(edge(ids, index));
  if (!added) return;
  at->second = std::make_unique<Node>();
  at->second->block = std::move(block);
  at->second->used = ++clock_;
  ++blocks_;
}

void PrefixCache::find_leaf(Children& children, Leaf& best) {
  for (auto at = children.begin(); at != children.end(); ++at) {
    Node& node = *at->second;
    if (!node.children.empty()) {
      find_leaf(node.children, best);
    } else if (node.block.use_count() == 1 &&
               (best.siblings == nullptr || node.used < best.at->second->used)) {
      best = {&children, at};
    }
  }
}

bool PrefixCache::evict_one() {
  Leaf best;
  find_leaf(roots_, best);
  if (best.siblings == nullptr) return false;
  best.siblings->erase(best.at);
  --blocks_;
  return true;
}

std::size_t PrefixCache::count_idle(const Children& children) {
  std::size_t idle = 0;
  for (const auto& [ids, node] : children)
    idle += (node->block.use_count() == 1 ? 1u : 0u) + count_idle(node->children);
  return idle;
}

std::size_t PrefixCache::idle_blocks() const { return count_idle(roots_); }

}  // namespace verbatim::local_engine
