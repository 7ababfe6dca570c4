// Attention of the GPU's kernels against the CPU's, by bits, over pages that both fill.

#include "kernels/attention/attention.hpp"

#include "kernels/attention/attention_cuda.hpp"
#include "tests/gpu/device.hpp"

#include <limits>
#include <memory>

namespace verbatim::kernels::test {
namespace {

struct Shape {
  std::size_t heads, kv_heads, dim;
  float softcap = 0;
  std::size_t window = 0;
};

/// A sequence whose keys and values lie in pages of the host and, the same, of the device.
struct Sequence {
  std::vector<std::vector<float>> storage;
  std::vector<KvPage> pages, device_pages;
  const KvPage* table = nullptr;  // of the device
};

class Attention : public OnDevice {
 protected:
  /// Positions that nothing was stored at hold infinities and NaN: they must not be looked at.
  Sequence empty_sequence(const AttentionShape& shape, std::size_t pages) {
    Sequence s;
    const std::size_t size = kv_page_floats(shape.kv_heads, shape.head_dim);
    for (std::size_t i = 0; i < 2 * pages; ++i) {
      s.storage.emplace_back(size);
      for (std::size_t k = 0; k < size; ++k)
        s.storage.back()[k] = k % 2 != 0 ? std::numeric_limits<float>::infinity()
                                         : std::numeric_limits<float>::quiet_NaN();
    }
    for (std::size_t p = 0; p < pages; ++p) {
      s.pages.push_back({s.storage[2 * p].data(), s.storage[2 * p + 1].data()});
      s.device_pages.push_back(
          {memory_.upload(s.storage[2 * p]), memory_.upload(s.storage[2 * p + 1])});
    }
    s.table = memory_.upload(s.device_pages);
    return s;
  }

  /// Stores positions 0..count-1 with both backends.
  void fill(const AttentionShape& shape, const Sequence& s, std::size_t count, std::uint64_t seed,
            Kind kind = Kind::ordinary) {
    const std::size_t width = shape.kv_heads * shape.head_dim, stride = 2 * width + 5;
    const std::vector<float> kv = random_floats(count * stride, seed, kind);
    std::vector<cuda::AttentionRow> rows;
    for (std::size_t i = 0; i < count; ++i) {
      kv_store(shape, s.pages[i / kBlock], i % kBlock, kv.data() + i * stride,
               kv.data() + i * stride + width);
      rows.push_back({nullptr, nullptr, i, s.table});
    }
    const float* device_kv = memory_.upload(kv);
    cuda::kv_store(shape, memory_.upload(rows), count, device_kv, device_kv + width, stride,
                   nullptr);
  }

  struct Query {
    const Sequence* sequence;
    std::size_t position;
  };
  /// All queries in one call, by one block of threads a tile and by one a page.
  void compare(const AttentionShape& shape, const std::vector<Query>& queries,
               std::vector<bool> range = {}) {
    const std::size_t width = shape.heads * shape.head_dim;
    const std::vector<float> q = random_floats(queries.size() * width, queries.size());
    std::vector<float> expected(q.size());
    const float* device_q = memory_.upload(q);
    std::vector<AttentionRow> rows;
    std::size_t pages_max = 0;
    for (std::size_t r = 0; r < queries.size(); ++r) {
      rows.push_back({q.data() + r * width, expected.data() + r * width, queries[r].position,
                      queries[r].sequence->pages.data(), false});
      pages_max = std::max(pages_max, queries[r].position / kBlock + 1);
    }
    attention(best_backend(), shape, rows);
    range.resize(queries.size());
    for (const bool split : {false, true}) {
      if (!split && shape.head_dim > kBlock) continue;
      float* out = memory_.fresh<float>(q.size());
      std::vector<cuda::AttentionRow> device_rows;
      for (std::size_t r = 0; r < queries.size(); ++r)
        device_rows.push_back({device_q + r * width, out + r * width, queries[r].position,
                               queries[r].sequence->table});
      const auto tiles = cuda::attention_tiles(shape, device_rows);
      cuda::AttentionArgs args;
      args.shape = shape;
      args.row_count = rows.size();
      args.rows = memory_.upload(device_rows);
      args.tile_count = tiles.size();
      args.tiles = memory_.upload(tiles);
      args.pages_max = pages_max;
      if (split) args.scratch = memory_.fresh<float>(cuda::attention_scratch_floats(args));
      const std::vector<std::uint8_t> no(rows.size());
      auto* flags = memory_.upload(no);
      args.range = reinterpret_cast<bool*>(flags);
      cuda::attention(args, nullptr);
      EXPECT_TRUE(same_bits(memory_.download(out, q.size()), expected)) << "split " << split;
      const std::vector<std::uint8_t> found = memory_.download(flags, rows.size());
      for (std::size_t r = 0; r < rows.size(); ++r) {
        EXPECT_EQ(found[r] != 0, rows[r].range) << r;
        EXPECT_EQ(found[r] != 0, range[r]) << r;
      }
    }
  }

  static AttentionShape shape_of(const Shape& s) {
    return {s.heads, s.kv_heads, s.dim, 0.3f, s.softcap, s.window};
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, Attention, testing::Range<std::size_t>(0, kRuns));

TEST_P(Attention, OneQueryAtManyPositions) {
  for (const Shape& s : {Shape{4, 2, 8}, Shape{1, 1, 1}, Shape{3, 1, 20, 3.0f}, Shape{9, 1, 6},
                         Shape{2, 2, 256}, Shape{2, 1, 300}}) {
    const AttentionShape shape = shape_of(s);
    const Sequence sequence = empty_sequence(shape, 3);
    fill(shape, sequence, 701, 1);
    for (const std::size_t position : {0, 1, 254, 255, 256, 511, 512, 700})
      compare(shape, {{&sequence, position}});
    memory_.free();
  }
}

TEST_P(Attention, RowsOfOnePrefill) {
  const AttentionShape shape = shape_of({4, 2, 12});
  const Sequence sequence = empty_sequence(shape, 3);
  fill(shape, sequence, 530, 2, Kind::adversarial);
  for (const std::size_t first : {0, 250, 509}) {
    std::vector<Query> queries;
    for (std::size_t p = first; p < first + 21; ++p) queries.push_back({&sequence, p});
    compare(shape, queries);
  }
}

TEST_P(Attention, RowsOfManySequencesInAnyOrder) {
  const AttentionShape shape = shape_of({6, 3, 10});
  const Sequence a = empty_sequence(shape, 2), b = empty_sequence(shape, 1);
  fill(shape, a, 400, 3);
  fill(shape, b, 90, 4);
  compare(shape, {{&a, 399},
                  {&b, 0},
                  {&b, 1},
                  {&b, 89},
                  {&a, 10},
                  {&a, 300},
                  {&a, 5},  // falls back: a tile of its own
                  {&b, 40}});
}

TEST_P(Attention, SlidingWindows) {
  for (const std::size_t window : {1, 2, 100, 255, 256, 257, 600}) {
    const AttentionShape shape = shape_of({2, 1, 16, 0, window});
    const Sequence sequence = empty_sequence(shape, 4);
    fill(shape, sequence, 800, 5);
    std::vector<Query> queries;
    for (const std::size_t p : {0, 90, 99, 100, 254, 255, 256, 257, 355, 356, 511, 512, 700, 799})
      queries.push_back({&sequence, p});
    compare(shape, queries);
    compare(shape, {{&sequence, 799}});
    memory_.free();
  }
}

TEST_P(Attention, PagesBeforeAWindowAreNotTouched) {
  const AttentionShape shape = shape_of({2, 1, 8, 0, 20});
  Sequence sequence = empty_sequence(shape, 3);
  fill(shape, sequence, 600, 6);
  sequence.device_pages[0] = {nullptr, nullptr};
  sequence.table = memory_.upload(sequence.device_pages);
  compare(shape, {{&sequence, 599}});
}

TEST_P(Attention, AnInfiniteMaximumIsReportedForThatRowOnly) {
  const AttentionShape shape = shape_of({2, 1, 8});
  const Sequence sequence = empty_sequence(shape, 2);
  fill(shape, sequence, 300, 7);
  // Position 260's key makes every score that sees it infinite.
  const std::vector<float> huge(8, 0x1.fp127f);
  kv_store(shape, sequence.pages[1], 4, huge.data(), huge.data());
  const float* device_huge = memory_.upload(huge);
  const std::vector<cuda::AttentionRow> row = {{nullptr, nullptr, 260, sequence.table}};
  cuda::kv_store(shape, memory_.upload(row), 1, device_huge, device_huge, 8, nullptr);
  // Which sign the infinity has, and so which rows are out of range, is the CPU's to say: see compare().
  const std::size_t width = shape.heads * shape.head_dim;
  std::vector<bool> range;
  const std::vector<float> q = random_floats(4 * width, 4);
  std::vector<float> out(q.size());
  std::vector<AttentionRow> rows;
  for (const std::size_t position : {100, 259, 260, 299}) {
    rows.push_back({q.data() + rows.size() * width, out.data() + rows.size() * width, position,
                    sequence.pages.data(), false});
  }
  attention(Backend::scalar, shape, rows);
  for (const AttentionRow& r : rows) range.push_back(r.range);
  EXPECT_FALSE(range[0] || range[1]);
  EXPECT_TRUE(range[2] || range[3]);
  compare(shape, {{&sequence, 100}, {&sequence, 259}, {&sequence, 260}, {&sequence, 299}}, range);
}

TEST(AttentionTiles, HoldUpTo8QueriesOfOneSequenceWithRisingPositions) {
  const AttentionShape shape{6, 2, 4, 1, 0, 0};  // 3 query heads a group
  const KvPage a[1] = {}, b[1] = {};
  const std::vector<cuda::AttentionRow> rows = {{nullptr, nullptr, 5, a}, {nullptr, nullptr, 6, a},
                                                {nullptr, nullptr, 7, a}, {nullptr, nullptr, 0, b},
                                                {nullptr, nullptr, 9, a}, {nullptr, nullptr, 8, a}};
  std::vector<std::vector<std::uint32_t>> found;
  for (const auto& tile : cuda::attention_tiles(shape, rows))
    found.push_back({tile.first_row, tile.first_query, tile.count});
  EXPECT_EQ(found, (std::vector<std::vector<std::uint32_t>>{
                       {0, 0, 8}, {0, 8, 1}, {3, 0, 3}, {4, 0, 3}, {5, 0, 3}}));
}

}  // namespace
}  // namespace verbatim::kernels::test
