// RMSNorm, gates and elementwise operators: the profile's formulas on every backend, bit by bit.

#include "kernels/elementary/elementary.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/gate/gate.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "support.hpp"

#include <algorithm>

namespace verbatim::kernels::test {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 7, 8, 15, 16, 17, 255, 256, 257, 1000};

std::vector<float> normalized(std::span<const float> x, std::size_t cols, std::span<const float> w,
                              float eps, bool gemma, Backend backend, ThreadPool* pool = nullptr) {
  std::vector<float> y(x.size());
  rmsnorm(backend, {x.size() / cols, cols, eps, gemma, x.data(), cols, w.data(), y.data(), cols},
          pool);
  return y;
}

/// Section 2's dot product of x with itself, written again.
float profile_sum_of_squares(const float* x, std::size_t count) {
  float ss = 0;
  for (std::size_t block = 0; block < count; block += 256) {
    float s = 0;
    for (std::size_t k = block; k < std::min(block + 256, count); ++k) s = std::fma(x[k], x[k], s);
    ss = ss + s;
  }
  return ss;
}

class Rmsnorm : public testing::TestWithParam<std::size_t> {};

TEST_P(Rmsnorm, EveryBackendComputesTheProfilesText) {
  const std::size_t cols = GetParam(), rows = 5;
  for (const Kind kind : kKinds) {
    const std::vector<float> x = random_floats(rows * cols, cols, kind);
    const std::vector<float> w = random_floats(cols, cols + 1, kind);
    for (const bool gemma : {false, true}) {
      for (const Backend backend : supported_backends()) {
        const std::vector<float> y = normalized(x, cols, w, 1e-5f, gemma, backend);
        for (std::size_t row = 0; row < rows; ++row) {
          const float ss = profile_sum_of_squares(x.data() + row * cols, cols);
          const float r = 1.0f / std::sqrt((ss / static_cast<float>(cols)) + 1e-5f);
          for (std::size_t i = 0; i < cols; ++i) {
            const std::size_t at = row * cols + i;
            const float weight = gemma ? 1.0f + w[i] : w[i];
            ASSERT_TRUE(same_bits(y[at], (x[at] * r) * weight))
                << name(backend) << " " << text(kind) << " " << at;
          }
        }
      }
    }
  }
}

TEST_P(Rmsnorm, ARowsBitsDoNotDependOnItsBatchOrThreads) {
  const std::size_t cols = GetParam(), rows = 33;
  const std::vector<float> x = random_floats(rows * cols, 2);
  const std::vector<float> w = random_floats(cols, 3);
  ThreadPool pool(3);
  for (const Backend backend : supported_backends()) {
    const std::vector<float> together = normalized(x, cols, w, 1e-6f, false, backend, &pool);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = std::span(x).subspan(r * cols, cols);
      EXPECT_TRUE(same_bits(normalized(row, cols, w, 1e-6f, false, backend),
                            std::span(together).subspan(r * cols, cols)))
          << "row " << r;
    }
  }
}

// One element, one short of the block, exactly, one over, and wide enough for blocks side by side and for threads.
INSTANTIATE_TEST_SUITE_P(Widths, Rmsnorm, testing::Values(1, 64, 255, 256, 257, 2048, 4099));

TEST(Rmsnorm, StridesAndInPlaceWork) {
  const std::size_t cols = 40, stride = 45, rows = 3;
  const std::vector<float> x = random_floats(rows * stride, 1);
  const std::vector<float> w = random_floats(cols, 2);
  std::vector<float> in_place = x;
  rmsnorm(best_backend(),
          {rows, cols, 1e-5f, false, in_place.data(), stride, w.data(), in_place.data(), stride});
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<float> alone =
        normalized(std::span(x).subspan(r * stride, cols), cols, w, 1e-5f, false, Backend::scalar);
    EXPECT_TRUE(same_bits(std::span(in_place).subspan(r * stride, cols), alone));
    EXPECT_TRUE(same_bits(std::span(in_place).subspan(r * stride + cols, stride - cols),
                          std::span(x).subspan(r * stride + cols, stride - cols)));
  }
}

TEST(Gates, MatchTheirFormulasOnEveryBackendAlsoInPlace) {
  for (const Kind kind : kKinds) {
    for (const std::size_t count : kCounts) {
      const std::vector<float> gate = random_floats(count, count + 1, kind);
      const std::vector<float> up = random_floats(count, count + 2, kind);
      for (const Backend backend : supported_backends()) {
        std::vector<float> swi(count), ge = gate;
        swiglu(backend, gate.data(), up.data(), count, swi.data());
        geglu(backend, ge.data(), up.data(), count, ge.data());
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(same_bits(swi[i], silu_f32(gate[i]) * up[i]))
              << name(backend) << " " << gate[i];
          ASSERT_TRUE(same_bits(ge[i], gelu_tanh_f32(gate[i]) * up[i]))
              << name(backend) << " " << gate[i];
        }
      }
    }
  }
}

TEST(Elementwise, EachOperatorRoundsOnceOnEveryBackend) {
  for (const Kind kind : kKinds) {
    for (const std::size_t count : kCounts) {
      const std::vector<float> x = random_floats(count, count + 3, kind);
      const std::vector<float> y = random_floats(count, count + 4, kind);
      for (const Backend backend : supported_backends()) {
        std::vector<float> sum = x, scaled = x, capped = x, fused = x;
        add_in_place(backend, sum.data(), y.data(), count);
        scale_in_place(backend, scaled.data(), 1.7f, count);
        softcap_in_place(backend, capped.data(), 30.0f, count);
        fma_in_place(backend, fused.data(), 0.3f, y.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(same_bits(sum[i], x[i] + y[i]));
          ASSERT_TRUE(same_bits(scaled[i], x[i] * 1.7f));
          ASSERT_TRUE(same_bits(capped[i], 30.0f * tanh_f32(x[i] / 30.0f)));
          ASSERT_TRUE(same_bits(fused[i], std::fma(0.3f, y[i], x[i])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
