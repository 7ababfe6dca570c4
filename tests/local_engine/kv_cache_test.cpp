// Where blocks of keys and values come from and go back to.

#include "local_engine/kv_cache.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace verbatim::local_engine {
namespace {

constexpr std::size_t kLayers = 2;

/// The blocks' memory, by which one is told from another.
const float* memory_of(const std::shared_ptr<KvBlock>& block) { return block->page(0).k; }

TEST(KvPools, PagesOfABlockFollowEachOther) {
  constexpr std::size_t kFloats = 4096;
  const KvPool pool(kLayers, kFloats);
  EXPECT_EQ(pool.block_bytes(), 2 * kLayers * kFloats * sizeof(float));
  const auto block = pool.take();
  const float* first = memory_of(block);
  EXPECT_EQ(block->page(0).v, first + kFloats);
  EXPECT_EQ(block->page(1).k, first + 2 * kFloats);
  EXPECT_EQ(block->page(1).v, first + 3 * kFloats);
}

TEST(KvPools, ABlockThatEndedIsTheNext) {
  const KvPool pool(kLayers, 4096);
  const auto held = pool.take();
  auto block = pool.take();
  const float* memory = memory_of(block);
  EXPECT_NE(memory, memory_of(held));
  block.reset();
  block = pool.take();
  EXPECT_EQ(memory_of(block), memory);
  EXPECT_NE(memory_of(pool.take()), memory);  // it is taken
}

TEST(KvPools, SomeMemoryIsKeptAndTheRestGivenBack) {
  constexpr std::size_t kFloats = (20u << 20) / (2 * kLayers * sizeof(float));  // blocks of 20 MiB
  const KvPool pool(kLayers, kFloats);
  std::vector<std::shared_ptr<KvBlock>> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(pool.take());
  blocks.clear();
  EXPECT_EQ(pool.idle_blocks(), 6u);  // of 128 MiB

  const KvPool large(kLayers, 10 * kFloats);
  blocks = {large.take(), large.take()};
  blocks.clear();
  EXPECT_EQ(large.idle_blocks(), 1u);  // one request after another needs one at least
}

TEST(KvPools, BlocksOutliveThePoolAndEndOnAnyThread) {
  std::optional<KvPool> pool(std::in_place, kLayers, 4096);
  auto block = pool->take();
  std::thread([&pool, mine = pool->take()]() mutable {
    *mine->page(0).k = 1;
    mine.reset();
    for (int i = 0; i < 1000; ++i) static_cast<void>(pool->take());
  }).join();
  pool.reset();
  *block->page(1).v = 2;
  EXPECT_EQ(*block->page(1).v, 2);
  block.reset();
}

}  // namespace
}  // namespace verbatim::local_engine
