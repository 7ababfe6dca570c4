// Products of profile mma-hopper/1 of the GPU's kernel against the CPU's, by bits. The emulation's tensor core is the bit
// model; a GPU's is its own, and must be of the class that the profile describes.

#include "kernels/mma/mma.hpp"

#include "kernels/mma/mma_cuda.hpp"
#include "tests/gpu/device.hpp"
#include "tests/kernels/matrix.hpp"

#include <cstring>

namespace verbatim::kernels::test {
namespace {

class MmaProducts : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
#ifndef VERBATIM_CUDA_EMULATION
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) return;
    if (!cuda::computes_mma_hopper(major))
      GTEST_SKIP() << "SKIPPED: tensor cores of another class: mma-hopper/1 was not compared";
#endif
  }

  static void compare(const PackedWeights& w, std::span<const float> x, std::size_t m,
                      std::size_t x_stride, std::size_t y_gap, bool biased) {
    const std::size_t n = w.rows(), y_stride = n + y_gap;
    const std::vector<float> bias = random_floats(n, 3);
    std::vector<float> expected(m * y_stride, 99.0f);
    mma_matmul(best_backend(), w,
               {x.data(), m, x_stride, biased ? bias.data() : nullptr, expected.data(), y_stride});
    DeviceMemory memory;
    float* y = memory.upload(std::vector<float>(m * y_stride, 99.0f));
    const cuda::Weights weights{memory.upload(static_cast<const std::byte*>(w.data()), w.bytes()),
                                w.dtype(), n, w.cols()};
    cuda::mma_matmul(weights,
                     {memory.upload(x.data(), x.size()), m, x_stride,
                      biased ? memory.upload(bias) : nullptr, y, y_stride},
                     nullptr);
    EXPECT_TRUE(same_bits(memory.download(y, m * y_stride), expected))
        << m << "x" << n << "x" << w.cols();
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, MmaProducts, testing::Range<std::size_t>(0, kRuns));

TEST_P(MmaProducts, EveryDtypeDepthAndKindOfInput) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const Kind kind : kKinds) {
      for (const std::size_t k : {1, 15, 16, 17, 255, 256, 257, 300}) {
        const Matrix matrix = random_matrix(21, k, dtype, k, kind);
        compare(PackedWeights(matrix.view()), random_floats(5 * k, k + 1, kind), 5, k, 0, true);
      }
    }
  }
}

TEST_P(MmaProducts, EveryNumberOfRowsAndOutputsAroundTheTiles) {
  const std::size_t k = 40;
  for (const std::size_t n : {1, 7, 8, 9, 15, 16, 17, 33}) {
    const Matrix matrix = random_matrix(n, k, Dtype::bf16, n, Kind::ordinary);
    for (const std::size_t m : {0, 1, 8, 9, 15, 16, 17, 33})
      compare(PackedWeights(matrix.view()), random_floats(m * (k + 3), m), m, k + 3, 2, false);
  }
}

TEST_P(MmaProducts, MoreBlocksOfKThanWarps) {
  const std::size_t k = 9 * 256 + 20;
  const Matrix matrix = random_matrix(16, k, Dtype::f16, 1, Kind::ordinary);
  compare(PackedWeights(matrix.view()), random_floats(2 * k, 2), 2, k, 0, false);
}

TEST_P(MmaProducts, WhatLeavesTheProfileIsNotANumber) {
  const std::size_t k = 300, n = 20, m = 3;
  const Matrix matrix = random_matrix(n, k, Dtype::f16, 1, Kind::ordinary);
  std::vector<std::uint8_t> stored = matrix.stored;
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(stored.data() + 1 + 2 * (9 * k + 299), &infinity, 2);
  std::vector<float> x = random_floats(m * k, 2);
  x[5] = 65520;    // of f16, an infinity
  x[k + 299] = 0;  // beside the infinite weight
  compare(PackedWeights({stored.data() + 1, Dtype::f16, n, k}), x, m, k, 0, false);
}

}  // namespace
}  // namespace verbatim::kernels::test
