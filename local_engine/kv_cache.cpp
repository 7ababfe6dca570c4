#include "local_engine/kv_cache.hpp"

#include "schema/error.hpp"

#include <utility>

namespace verbatim::local_engine {
namespace {

std::vector<TokenId> edge(std::span<const TokenId> ids, std::size_t index) {
  const auto part = ids.subspan(index * kernels::kBlock, kernels::kBlock);
  return {part.begin(), part.end()};
}

}  // namespace

// 256 positions of f32 are a multiple of 64 bytes in every page, so each page is aligned when the first is.
KvBlock::KvBlock(std::size_t layers, std::size_t page_floats)
    : memory_(2 * layers * page_floats * sizeof(float)), page_floats_(page_floats) {}

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
