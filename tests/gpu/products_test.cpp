// Matrix products of the GPU's kernels against the CPU's, by bits.

#include "kernels/matmul/matmul.hpp"
#include "kernels/matmul/matmul_cuda.hpp"
#include "tests/gpu/device.hpp"

#include <cmath>
#include <limits>

namespace verbatim::kernels::test {
namespace {

struct Stored {
  std::vector<std::uint8_t> bytes;
  WeightsView view;
};
Stored stored(std::size_t n, std::size_t k, Dtype dtype, std::uint64_t seed, Kind kind) {
  const std::vector<float> values = random_floats(n * k, seed, kind);
  Stored out{std::vector<std::uint8_t>(n * k * block_layout(dtype).bytes), {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half =
        dtype == Dtype::bf16 ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
    const auto* from = dtype == Dtype::f32 ? reinterpret_cast<const std::uint8_t*>(&values[i])
                                           : reinterpret_cast<const std::uint8_t*>(&half);
    std::copy_n(from, block_layout(dtype).bytes, out.bytes.data() + i * block_layout(dtype).bytes);
  }
  out.view = {out.bytes.data(), dtype, n, k};
  return out;
}

class Products : public OnDevice {
 protected:
  cuda::Weights upload(const PackedWeights& w) {
    return {memory_.upload(static_cast<const std::byte*>(w.data()), w.bytes()), w.dtype(), w.rows(),
            w.cols()};
  }

  /// m rows of x, x_stride apart, against the CPU's product; what lies between the rows of y must stay.
  void compare(const PackedWeights& w, std::size_t m, std::size_t x_gap, std::size_t y_gap,
               bool biased, Kind kind) {
    const std::size_t n = w.rows(), x_stride = w.cols() + x_gap, y_stride = n + y_gap;
    const std::vector<float> x = random_floats(m * x_stride, n + m, kind);
    const std::vector<float> bias = random_floats(n, 3, kind);
    std::vector<float> expected(m * y_stride, 99.0f);
    matmul(best_backend(), w,
           {x.data(), m, x_stride, biased ? bias.data() : nullptr, expected.data(), y_stride});
    DeviceMemory memory;
    float* y = memory.upload(std::vector<float>(m * y_stride, 99.0f));
    const cuda::Weights weights{memory.upload(static_cast<const std::byte*>(w.data()), w.bytes()),
                                w.dtype(), n, w.cols()};
    cuda::matmul(
        weights,
        {memory.upload(x), m, x_stride, biased ? memory.upload(bias) : nullptr, y, y_stride},
        nullptr);
    EXPECT_TRUE(same_bits(memory.download(y, m * y_stride), expected))
        << m << "x" << n << "x" << w.cols() << " " << text(kind);
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, Products, testing::Range<std::size_t>(0, kRuns));

TEST_P(Products, EveryDtypeDepthAndKindOfInput) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const Kind kind : kKinds) {
      for (const std::size_t k : {1, 15, 255, 256, 257, 513}) {
        const Stored weights = stored(37, k, dtype, k, kind);
        const PackedWeights w(weights.view);
        compare(w, 3, 0, 0, true, kind);
        compare(w, 20, 0, 0, true, kind);
      }
    }
  }
}

TEST_P(Products, EveryNumberOfRowsAroundTheTiles) {
  const Stored weights = stored(19, 260, Dtype::bf16, 1, Kind::adversarial);
  const PackedWeights w(weights.view);
  for (const std::size_t m : {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 63, 64, 65, 127, 128, 129, 257})
    compare(w, m, 0, 0, false, Kind::adversarial);
}

TEST_P(Products, EveryNumberOfOutputsAroundTheTiles) {
  for (const std::size_t n : {1, 15, 16, 17, 127, 128, 129, 150}) {
    const Stored weights = stored(n, 20, Dtype::f16, n, Kind::adversarial);
    const PackedWeights w(weights.view);
    compare(w, 2, 0, 0, true, Kind::adversarial);
    compare(w, 10, 0, 0, true, Kind::adversarial);
  }
}

TEST_P(Products, StridesWhetherAlignedOrNot) {
  for (const std::size_t k : {20, 23}) {
    const Stored weights = stored(21, k, Dtype::f32, k, Kind::ordinary);
    const PackedWeights w(weights.view);
    for (const std::size_t gap : {0, 1, 4, 7}) {
      compare(w, 4, gap, gap, true, Kind::ordinary);
      compare(w, 30, gap, gap, true, Kind::ordinary);
    }
  }
}

TEST_P(Products, MoreBlocksOfKThanOneRoundTakes) {
  // 33 blocks: a second round of the decode kernel, with one block.
  const Stored weights = stored(17, 33 * 256 - 1, Dtype::bf16, 1, Kind::ordinary);
  const PackedWeights w(weights.view);
  compare(w, 1, 0, 0, false, Kind::ordinary);
  compare(w, 5, 0, 0, false, Kind::ordinary);
}

TEST_P(Products, ARowsBitsDoNotDependOnItsNeighbours) {
  const std::size_t k = 300, n = 40, m = 70;
  const Stored weights = stored(n, k, Dtype::bf16, 1, Kind::ordinary);
  const PackedWeights w(weights.view);
  const cuda::Weights on_device = upload(w);
  const std::vector<float> x = random_floats(m * k, 2);
  const float* device_x = memory_.upload(x);
  float* y = memory_.fresh<float>(m * n);
  cuda::matmul(on_device, {device_x, m, k, nullptr, y, n}, nullptr);
  const std::vector<float> together = memory_.download(y, m * n);
  for (const std::size_t few : {1, 2, 4, 8, 9}) {
    for (std::size_t r = 0; r + few <= m; r += 13) {
      float* part = memory_.fresh<float>(few * n);
      cuda::matmul(on_device, {device_x + r * k, few, k, nullptr, part, n}, nullptr);
      EXPECT_TRUE(
          same_bits(memory_.download(part, few * n), std::span(together).subspan(r * n, few * n)));
    }
  }
}

TEST_P(Products, EveryHalfFloatIsWidenedExactly) {
  // One column; x = 1: each output is its weight.
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    const PackedWeights w({halves.data(), dtype, halves.size(), 1});
    std::vector<std::int32_t> ids(halves.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    std::vector<float> expected(halves.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
      expected[i] = dtype == Dtype::bf16 ? bf16_to_f32(halves[i]) : f16_to_f32(halves[i]);
    float* out = memory_.fresh<float>(ids.size());
    cuda::gather_rows(upload(w), memory_.upload(ids), ids.size(), 1, out, nullptr);
    EXPECT_TRUE(same_bits(memory_.download(out, ids.size()), expected));
  }
}

TEST_P(Products, GatheredRowsAreTheStoredOnesTimesTheScale) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Stored weights = stored(35, 30, dtype, 9, Kind::adversarial);
    const PackedWeights w(weights.view);
    const std::vector<std::int32_t> ids = {34, 0, 16, 15, 16};
    for (const float scale : {1.0f, 1.7f}) {
      std::vector<float> expected(ids.size() * 30);
      for (std::size_t r = 0; r < ids.size(); ++r)
        w.unpack_row(static_cast<std::size_t>(ids[r]), expected.data() + r * 30);
      for (float& x : expected) x = x * scale;
      float* out = memory_.fresh<float>(expected.size());
      cuda::gather_rows(upload(w), memory_.upload(ids), ids.size(), scale, out, nullptr);
      EXPECT_TRUE(same_bits(memory_.download(out, expected.size()), expected)) << scale;
    }
  }
}

TEST_P(Products, GroupedProductsAreThoseOfEachExpertAlone) {
  const std::size_t k = 270, n = 37, experts = 4, rows = 70;
  for (const std::size_t per_x_row : {1, 2}) {
    for (const std::size_t slots_max : {7, 70}) {  // both kernels
      std::vector<PackedWeights> weights;
      std::vector<const void*> pointers;
      std::vector<const float*> biases;
      const std::vector<float> bias = random_floats(n, 5);
      for (std::size_t e = 0; e < experts; ++e) {
        const Stored one = stored(n, k, Dtype::bf16, e, Kind::adversarial);
        weights.emplace_back(one.view);
        pointers.push_back(upload(weights.back()).data);
        biases.push_back(e == 2 ? nullptr : memory_.upload(bias));
      }
      // Expert 1 has none; the others share the slots, not in order.
      const std::size_t slot_count = 2 * slots_max;
      std::vector<std::uint32_t> first = {0, static_cast<std::uint32_t>(slots_max),
                                          static_cast<std::uint32_t>(slots_max), 0, 0};
      first[3] = first[4] = static_cast<std::uint32_t>(slot_count);
      first[3] -= 3;
      std::vector<std::uint32_t> slots(slot_count);
      for (std::size_t i = 0; i < slot_count; ++i)
        slots[i] = static_cast<std::uint32_t>((i * 5 + 3) % slot_count);
      if (slot_count % 5 == 0)
        for (std::size_t i = 0; i < slot_count; ++i)
          slots[i] = static_cast<std::uint32_t>(slot_count - 1 - i);
      const std::vector<float> x = random_floats(rows * 2 * k, 6, Kind::adversarial);
      std::vector<float> expected(slot_count * n, 99.0f);
      for (std::size_t e = 0; e < experts; ++e) {
        for (std::size_t i = first[e]; i < first[e + 1]; ++i) {
          matmul(best_backend(), weights[e],
                 {x.data() + slots[i] / per_x_row * k, 1, k, e == 2 ? nullptr : bias.data(),
                  expected.data() + slots[i] * n, n});
        }
      }
      float* y = memory_.upload(std::vector<float>(slot_count * n, 99.0f));
      cuda::GroupedMatmulArgs args;
      args.dtype = Dtype::bf16;
      args.rows = n;
      args.cols = k;
      args.experts = experts;
      args.weights = memory_.upload(pointers);
      args.biases = memory_.upload(biases);
      args.first = memory_.upload(first);
      args.slots = memory_.upload(slots);
      args.slots_of_one_max = slots_max;
      args.slots_per_x_row = per_x_row;
      args.x = memory_.upload(x);
      args.x_stride = k;
      args.y = y;
      args.y_stride = n;
      cuda::grouped_matmul(args, nullptr);
      EXPECT_TRUE(same_bits(memory_.download(y, expected.size()), expected))
          << per_x_row << " " << slots_max;
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
