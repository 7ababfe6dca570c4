// Quantised rows on the GPU: every element of every format has the value that the CPU's decoding gives it.

#include "kernels/block.hpp"
#include "kernels/quantised/quantised_cuda.hpp"
#include "tests/gpu/device.hpp"
#include "tests/support/tiny_model.hpp"

#include <string>

namespace verbatim::kernels::test {
namespace {

using verbatim::test::TinyRandom;

constexpr Dtype kFormats[] = {Dtype::q8_0, Dtype::q4_0, Dtype::q4_1, Dtype::q5_0,
                              Dtype::q5_1, Dtype::q4_k, Dtype::q5_k, Dtype::q6_k};

/// Any bytes: scales of all magnitudes, subnormal, infinite and NaN ones among them.
std::vector<std::uint8_t> any_bytes(std::size_t count, std::uint64_t seed) {
  TinyRandom random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& each : bytes) each = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

/// NaNs are equal: which one comes out of an operation is nobody's promise.
bool same_values(float a, float b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
}

class Quantised : public OnDevice {
 protected:
  static constexpr std::size_t kCols = 512, kRows = 37;

  /// Row-major, as the CPU decodes them.
  static std::vector<float> decoded(const std::vector<std::uint8_t>& bytes, Dtype dtype) {
    std::vector<float> values(bytes.size() / row_bytes(dtype, kCols) * kCols);
    to_f32(bytes.data(), dtype, values.size(), values.data());
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, Quantised, testing::Range<std::size_t>(0, kRuns));

TEST_P(Quantised, AnySliceOfRowsBecomesPanelsOfItsValues) {
  for (const Dtype dtype : kFormats) {
    const auto bytes = any_bytes(kRows * row_bytes(dtype, kCols), 7);
    const auto expected = decoded(bytes, dtype);
    cuda::DequantiseArgs args;
    args.dtype = dtype;
    args.cols = kCols;
    args.rows = memory_.upload(bytes);
    for (const auto& [first, count] : {std::pair{0, 37}, std::pair{16, 16}, std::pair{5, 3}}) {
      args.first_row = static_cast<std::size_t>(first);
      args.row_count = static_cast<std::size_t>(count);
      const std::size_t floats = cuda::dequantised_floats(args);
      ASSERT_EQ(floats, (args.row_count + 15) / 16 * 16 * kCols);
      args.out = memory_.fresh<float>(floats);
      cuda::dequantise_panels(args, nullptr);
      const auto panels = memory_.download(args.out, floats);
      for (std::size_t i = 0; i < floats; ++i) {
        const std::size_t n = i / (kCols * 16) * 16 + i % 16, k = i / 16 % kCols;
        const float value = n < args.row_count ? expected[(args.first_row + n) * kCols + k] : 0;
        ASSERT_TRUE(same_values(panels[i], value))
            << "format " << static_cast<int>(dtype) << " row " << n << " element " << k << ": "
            << panels[i] << ", not " << value;
      }
    }
  }
}

TEST_P(Quantised, RowsAreGathered) {
  for (const Dtype dtype : kFormats) {
    const auto bytes = any_bytes(kRows * row_bytes(dtype, kCols), 8);
    const auto expected = decoded(bytes, dtype);
    const std::vector<std::int32_t> ids = {36, 0, 5, 5};
    for (const float scale : {1.0f, 45.25f}) {
      float* out = memory_.fresh<float>(ids.size() * kCols);
      cuda::gather_quantised_rows(memory_.upload(bytes), dtype, kCols, memory_.upload(ids),
                                  ids.size(), scale, out, nullptr);
      const auto rows = memory_.download(out, ids.size() * kCols);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const float value = expected[static_cast<std::size_t>(ids[i / kCols]) * kCols + i % kCols];
        ASSERT_TRUE(same_values(rows[i], scale == 1 ? value : value * scale));
      }
    }
  }
}

TEST_P(Quantised, OnlyExpertsWithSlotsAreDecoded) {
  const Dtype dtype = Dtype::q4_k;
  std::vector<const std::uint8_t*> matrices;
  std::vector<std::vector<float>> expected;
  for (std::uint64_t e = 0; e < 3; ++e) {
    const auto bytes = any_bytes(20 * row_bytes(dtype, kCols), e);
    matrices.push_back(memory_.upload(bytes));
    expected.push_back(decoded(bytes, dtype));
  }
  cuda::DequantiseArgs args;
  args.dtype = dtype;
  args.cols = kCols;
  args.experts = memory_.upload(matrices);
  args.expert_count = 3;
  args.first = memory_.upload(std::vector<std::uint32_t>{0, 2, 2, 3});
  args.first_row = 16;
  args.row_count = 4;
  const std::size_t each = 16 * kCols;
  ASSERT_EQ(cuda::dequantised_floats(args), 3 * each);
  args.out = memory_.upload(std::vector<float>(3 * each, 5));
  args.panels = memory_.fresh<const void*>(3);
  cuda::dequantise_panels(args, nullptr);
  const auto panels = memory_.download(args.out, 3 * each);
  const auto begins = memory_.download(args.panels, 3);
  for (std::size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(begins[e], args.out + e * each);
    for (std::size_t i = 0; i < each; ++i) {
      const float decoded_value = i % 16 < 4 ? expected[e][(16 + i % 16) * kCols + i / 16] : 0;
      ASSERT_TRUE(same_values(panels[e * each + i], e == 1 ? 5 : decoded_value)) << e << " " << i;
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
