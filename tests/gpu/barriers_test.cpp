// Every barrier of every kernel is left out once: that must be a fault, or change the result under some schedule. So the
// tests would notice if it were missing, and no barrier is there for nothing.

#include "kernels/attention/attention_cuda.hpp"
#include "kernels/logits/logits_cuda.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/matmul/matmul_cuda.hpp"
#include "kernels/mma/mma_cuda.hpp"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"
#include "kernels/sampling/sampling_cuda.hpp"
#include "tests/gpu/device.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace verbatim::kernels::test {
namespace {

using Result = std::vector<float>;

Result product(DeviceMemory& memory, std::size_t n, std::size_t k, std::size_t m) {
  const std::vector<float> values = random_floats(n * k, 1), x = random_floats(m * k, 2);
  const PackedWeights w({values.data(), Dtype::f32, n, k});
  float* y = memory.fresh<float>(m * n);
  cuda::matmul(
      {memory.upload(static_cast<const std::byte*>(w.data()), w.bytes()), Dtype::f32, n, k},
      {memory.upload(x), m, k, nullptr, y, n}, nullptr);
  return memory.download(y, m * n);
}

/// More blocks of K than a block of threads has warps.
Result mma_product(DeviceMemory& memory) {
  const std::size_t n = 3, k = 8 * 256 + 20, m = 2;
  const std::vector<float> x = random_floats(m * k, 2);
  std::vector<std::uint16_t> halves;
  for (const float value : random_floats(n * k, 1)) halves.push_back(f32_to_bf16(value));
  const PackedWeights w({halves.data(), Dtype::bf16, n, k});
  float* y = memory.fresh<float>(m * n);
  cuda::mma_matmul(
      {memory.upload(static_cast<const std::byte*>(w.data()), w.bytes()), Dtype::bf16, n, k},
      {memory.upload(x), m, k, nullptr, y, n}, nullptr);
  return memory.download(y, m * n);
}

Result norm(DeviceMemory& memory) {
  const std::size_t cols = 4096 + 600;
  const std::vector<float> x = random_floats(cols, 1), w = random_floats(cols, 2);
  float* y = memory.upload(x);
  cuda::rmsnorm({1, 1, cols, 1e-6f, false, y, cols, memory.upload(w), y, cols}, nullptr);
  return memory.download(y, cols);
}

/// The last of three pages of a window, by both kernels.
Result attention_of(DeviceMemory& memory, std::size_t dim, bool split) {
  const AttentionShape shape{2, 1, dim, 0.3f, 0, 0};
  std::vector<KvPage> pages;
  for (std::uint64_t p = 0; p < 3; ++p) {
    pages.push_back({memory.upload(random_floats(kv_page_floats(1, dim), 2 * p)),
                     memory.upload(random_floats(kv_page_floats(1, dim), 2 * p + 1))});
  }
  const KvPage* table = memory.upload(pages);
  const float* q = memory.upload(random_floats(2 * dim, 9));
  float* out = memory.fresh<float>(2 * dim);
  const std::vector<cuda::AttentionRow> rows = {{q, out, 700, table}};
  const auto tiles = cuda::attention_tiles(shape, rows);
  cuda::AttentionArgs args;
  args.shape = shape;
  args.row_count = 1;
  args.rows = memory.upload(rows);
  args.tile_count = tiles.size();
  args.tiles = memory.upload(tiles);
  args.pages_max = 3;
  if (split) args.scratch = memory.fresh<float>(cuda::attention_scratch_floats(args));
  args.range = reinterpret_cast<bool*>(memory.upload(std::vector<std::uint8_t>(1)));
  cuda::attention(args, nullptr);
  return memory.download(out, 2 * dim);
}

Result statistics(DeviceMemory& memory) {
  cuda::LogitRows rows;
  rows.count = rows.stride = 260 * 256;  // more blocks than are staged together
  rows.rows = 1;
  rows.logits = memory.upload(random_floats(rows.count, 3));
  auto* out = memory.fresh<cuda::LogitStats>(1);
  cuda::logit_stats(rows, memory.fresh<std::byte>(cuda::logit_scratch_bytes(rows)), out, nullptr);
  const auto stats = memory.download(out, 1)[0];
  auto* top = memory.fresh<std::int32_t>(3);
  cuda::top_ids(rows, 3, top, nullptr);
  Result result = {static_cast<float>(stats.finite), static_cast<float>(stats.best),
                   static_cast<float>(stats.second), stats.sum};
  for (const std::int32_t id : memory.download(top, 3)) result.push_back(static_cast<float>(id));
  return result;
}

/// Everything that a choice can need, and a nucleus of more than a thousand tokens.
Result choice(DeviceMemory& memory) {
  const std::size_t count = 1500;
  std::vector<float> x = random_floats(count, 3);
  for (float& value : x) value *= 0.01f;
  std::vector<cuda::TokenBias> bias;
  std::vector<cuda::TokenCount> seen;
  for (std::int32_t id = 0; id < 400; ++id) {
    bias.push_back({399 - id, 0.001f * static_cast<float>(id)});
    seen.push_back({(id + 100) % 400, 1, 1});
  }
  cuda::SamplerRow row;
  row.bias = memory.upload(bias);
  row.bias_count = bias.size();
  row.seen = memory.upload(seen);
  row.seen_count = seen.size();
  row.frequency_penalty = 0.1f;
  row.temperature = 0.5f;
  row.top_p = 0.9;
  row.given = 7;
  cuda::SamplerArgs args;
  args.logits = memory.upload(x);
  args.rows = 1;
  args.count = args.stride = count;
  args.params = memory.upload(std::vector<cuda::SamplerRow>{row});
  args.scratch = memory.fresh<float>(2 * count);
  args.choices = memory.fresh<cuda::TokenChoice>(1);
  cuda::choose_tokens(args, nullptr);
  const auto found = memory.download(args.choices, 1)[0];
  // The scratch shows what the choice may not.
  Result result = memory.download(args.scratch, 2 * count);
  result.insert(result.end(), {static_cast<float>(found.id), static_cast<float>(found.second),
                               found.margin, found.deficit});
  return result;
}

/// What a scenario gives under a schedule; nothing when it is a fault.
std::optional<Result> run(const std::function<Result(DeviceMemory&)>& scenario, std::size_t i) {
  begin_run(i);
  DeviceMemory memory;
  try {
    return scenario(memory);
  } catch (const emulation::Fault&) {
    return std::nullopt;
  }
}

bool same(const std::optional<Result>& a, const Result& b) {
  return a.has_value() && same_bits(std::span<const float>(*a), std::span<const float>(b));
}

TEST(Barriers, NoneCanBeLeftOutWithoutBeingNoticed) {
  const std::vector<std::function<Result(DeviceMemory&)>> scenarios = {
      [](DeviceMemory& m) { return product(m, 17, 33 * 256, 1); },
      [](DeviceMemory& m) { return product(m, 17, 60, 9); },
      [](DeviceMemory& m) { return product(m, 17, 60, 65); },
      mma_product,
      norm,
      [](DeviceMemory& m) { return attention_of(m, 300, true); },
      [](DeviceMemory& m) { return attention_of(m, 12, true); },
      [](DeviceMemory& m) { return attention_of(m, 12, false); },
      statistics,
      choice};
  std::set<emulation::Barrier> all, noticed;
  for (const auto& scenario : scenarios) {
    emulation::take_barriers_reached();
    const Result right = run(scenario, 0).value();
    const auto reached = emulation::take_barriers_reached();
    all.insert(reached.begin(), reached.end());
    for (const emulation::Barrier& barrier : reached) {
      if (noticed.contains(barrier)) continue;
      emulation::leave_out(barrier);
      for (std::size_t i = 0; i < kRuns && !noticed.contains(barrier); ++i) {
        if (!same(run(scenario, i), right)) noticed.insert(barrier);
      }
      emulation::leave_out({});
    }
    EXPECT_TRUE(same(run(scenario, kRuns - 1), right));
  }
  begin_run(0);
  EXPECT_GE(all.size(), 25u);
  for (const emulation::Barrier& barrier : all) {
    EXPECT_TRUE(noticed.contains(barrier))
        << barrier.file << ":" << barrier.line << ": nothing changes without this barrier";
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
