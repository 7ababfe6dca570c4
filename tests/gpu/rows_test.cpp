// Operators on rows and elements: the GPU's kernels against the CPU's, by bits.

#include "kernels/elementary/elementary.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/elementwise/elementwise_cuda.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/gate/gate_cuda.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/rope/rope_cuda.hpp"
#include "tests/gpu/device.hpp"

#include <limits>

namespace verbatim::kernels::test {
namespace {

using Rows = OnDevice;
INSTANTIATE_TEST_SUITE_P(Runs, Rows, testing::Range<std::size_t>(0, kRuns));

TEST_P(Rows, NormalizationOfEveryWidth) {
  for (const Kind kind : kKinds) {
    for (const std::size_t cols : {1, 2, 255, 256, 257, 1000, 4096, 4097, 9000}) {
      for (const bool gemma : {false, true}) {
        const std::size_t rows = 3, stride = cols + 3;
        const std::vector<float> x = random_floats(rows * stride, cols, kind);
        const std::vector<float> w = random_floats(cols, cols + 1, kind);
        std::vector<float> expected = x;
        rmsnorm(best_backend(),
                {rows, cols, 1e-6f, gemma, x.data(), stride, w.data(), expected.data(), stride});
        float* y = memory_.upload(x);  // in place
        cuda::rmsnorm({rows, 1, cols, 1e-6f, gemma, y, stride, memory_.upload(w), y, stride},
                      nullptr);
        EXPECT_TRUE(same_bits(memory_.download(y, x.size()), expected))
            << text(kind) << " " << cols;
        memory_.free();
      }
    }
  }
}

TEST_P(Rows, HeadsAreNormalizedEachByItself) {
  const std::size_t rows = 3, heads = 5, dim = 20, stride = 130;
  const std::vector<float> x = random_floats(rows * stride, 1);
  const std::vector<float> w = random_floats(dim, 2);
  std::vector<float> expected = x;
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = expected.data() + r * stride;
    rmsnorm(best_backend(), {heads, dim, 1e-5f, false, row, dim, w.data(), row, dim});
  }
  float* y = memory_.upload(x);
  cuda::rmsnorm({rows, heads, dim, 1e-5f, false, y, stride, memory_.upload(w), y, stride}, nullptr);
  EXPECT_TRUE(same_bits(memory_.download(y, x.size()), expected));
}

TEST_P(Rows, RotationsOfBothPairings) {
  const std::size_t rows = 4, heads = 3, dim = 20, pairs = 8, stride = 70;
  const RopeTable table =
      RopeTable::make(rope_inverse_frequencies(10000, 2 * pairs).value(), 50).value();
  const std::vector<std::size_t> positions = {0, 49, 7, 8};
  for (const Kind kind : kKinds) {
    for (const bool interleaved : {false, true}) {
      std::vector<float> x = random_floats(rows * stride, 1, kind);
      float* y = memory_.upload(x);
      cuda::rope_rotate({rows, heads, dim, pairs, interleaved, memory_.upload(positions),
                         memory_.upload(table.cos(0), 50 * pairs),
                         memory_.upload(table.sin(0), 50 * pairs), y, stride},
                        nullptr);
      rope_rotate(
          best_backend(), table,
          {rows, heads, dim, interleaved ? RopePairing::interleaved : RopePairing::half_split,
           positions.data(), x.data(), stride});
      EXPECT_TRUE(same_bits(memory_.download(y, x.size()), x)) << text(kind);
    }
  }
}

TEST_P(Rows, GatesWithStrides) {
  const std::size_t rows = 3, cols = 1001;
  for (const Kind kind : kKinds) {
    std::vector<float> both = random_floats(rows * 2 * cols, 1, kind);
    for (std::size_t i = 0; i < both.size(); i += 2) both[i] *= 10;
    std::vector<float> expected(rows * cols);
    for (const bool gelu : {false, true}) {
      for (std::size_t r = 0; r < rows; ++r) {
        const float* gate = both.data() + r * 2 * cols;
        (gelu ? geglu : swiglu)(best_backend(), gate, gate + cols, cols,
                                expected.data() + r * cols);
      }
      const float* in = memory_.upload(both);
      float* out = memory_.fresh<float>(rows * cols);
      (gelu ? cuda::geglu : cuda::swiglu)({rows, cols, in, in + cols, 2 * cols, out, cols},
                                          nullptr);
      EXPECT_TRUE(same_bits(memory_.download(out, rows * cols), expected)) << text(kind);
    }
  }
}

TEST_P(Rows, ElementwiseOperators) {
  for (const Kind kind : kKinds) {
    std::vector<float> x = random_floats(3001, 1, kind);
    for (std::size_t i = 0; i < x.size() / 2; ++i) x[i] *= 10;
    const std::vector<float> y = random_floats(x.size(), 2, kind);
    const std::size_t n = x.size();
    const Backend backend = best_backend();
    const auto compare = [&](auto device, auto host, const char* what) {
      float* at = memory_.upload(x);
      device(at, memory_.upload(y));
      std::vector<float> expected = x;
      host(expected.data());
      EXPECT_TRUE(same_bits(memory_.download(at, n), expected)) << what << " " << text(kind);
    };
    compare([&](float* a, const float* b) { cuda::add_in_place(a, b, n, nullptr); },
            [&](float* a) { add_in_place(backend, a, y.data(), n); }, "add");
    compare([&](float* a, const float*) { cuda::scale_in_place(a, 1.7f, n, nullptr); },
            [&](float* a) { scale_in_place(backend, a, 1.7f, n); }, "scale");
    compare([&](float* a, const float*) { cuda::softcap_in_place(a, 30.0f, n, nullptr); },
            [&](float* a) { softcap_in_place(backend, a, 30.0f, n); }, "softcap");
    compare([&](float* a, const float* b) { cuda::fma_in_place(a, 0.3f, b, n, nullptr); },
            [&](float* a) { fma_in_place(backend, a, 0.3f, y.data(), n); }, "fma");
  }
}

TEST_P(Rows, ElementaryFunctionsWithHardCases) {
  std::vector<float> x = random_floats(4000, 1, Kind::overflowing);
  Random random(2);
  for (int i = 0; i < 4000; ++i)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next())));
  // Where f64 does not decide how log rounds, and the ends.
  for (const std::uint32_t bits : {0x3c413d3au, 0x41178febu, 0x4c5d65a5u, 0x65d890d3u, 0x6f31a8ecu,
                                   0u, 0x80000000u, 1u, 0x007fffffu, 0x3f800000u, 0x7f800000u,
                                   0xff800000u, 0x7fc00000u, 0xc2aeac50u, 0xc2aeac4fu, 0x42b17218u})
    x.push_back(std::bit_cast<float>(bits));
  std::vector<float> expected(x.size());
  const float* in = memory_.upload(x);
  float* out = memory_.fresh<float>(x.size());
  exp_f32(best_backend(), x.data(), x.size(), expected.data());
  cuda::exp_f32(in, x.size(), out, nullptr);
  EXPECT_TRUE(same_bits(memory_.download(out, x.size()), expected));
  log_f32(best_backend(), x.data(), x.size(), expected.data());
  cuda::log_f32(in, x.size(), out, nullptr);
  EXPECT_TRUE(same_bits(memory_.download(out, x.size()), expected));
  tanh_f32(best_backend(), x.data(), x.size(), expected.data());
  cuda::tanh_f32(in, x.size(), out, nullptr);
  EXPECT_TRUE(same_bits(memory_.download(out, x.size()), expected));
}

TEST_P(Rows, NothingToDoIsNothingDone) {
  cuda::add_in_place(nullptr, nullptr, 0, nullptr);
  cuda::rmsnorm({}, nullptr);
  cuda::rope_rotate({}, nullptr);
  cuda::swiglu({}, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace verbatim::kernels::test
