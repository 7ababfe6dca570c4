#include "kernels/mma/mma.hpp"

#include "kernels/mma/detail.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace verbatim::kernels {

namespace {

// Below this many products a hand-over to another thread costs more than it saves.
constexpr std::size_t kWorthThreads = std::size_t{1} << 16;

/// 2^(the exponent of the value in its type), and 0 of a zero: a subnormal has that of the smallest normal.
float power_of(float value, Dtype dtype) {
  if (value == 0) return 0;
  const float smallest = dtype == Dtype::bf16 ? 0x1p-126f : 0x1p-14f;
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x7f800000u);
  return power > smallest ? power : smallest;
}

/// The rows of x as MmaRange has them.
struct Rounded {
  std::vector<std::uint16_t> bits;
  std::vector<float> values, powers;
  std::vector<std::uint8_t> finite;

  Rounded(const MatmulArgs& args, std::size_t cols, std::size_t depth, Dtype dtype,
          bool for_vectors)
      : bits(args.m * depth), finite(args.m, 1) {
    if (for_vectors) {
      values.resize(bits.size());
      powers.resize(bits.size());
    }
    for (std::size_t row = 0; row < args.m; ++row) {
      for (std::size_t k = 0; k < cols; ++k) {
        const float given = args.x[row * args.x_stride + k];
        const bool bf16 = dtype == Dtype::bf16;
        const std::uint16_t half = bf16 ? f32_to_bf16(given) : f32_to_f16(given);
        const float value = bf16 ? bf16_to_f32(half) : f16_to_f32(half);
        bits[row * depth + k] = half;
        if (!std::isfinite(value)) finite[row] = 0;
        if (!for_vectors) continue;
        values[row * depth + k] = value;
        powers[row * depth + k] = power_of(value, dtype);
      }
    }
  }
};

}  // namespace

void mma_matmul(Backend backend, const PackedWeights& w, const MatmulArgs& args, ThreadPool* pool) {
  VERBATIM_CHECK(w.dtype() == Dtype::bf16 || w.dtype() == Dtype::f16);
  if (args.m == 0 || w.rows() == 0) return;
  if (args.m * w.rows() * w.cols() < kWorthThreads) pool = nullptr;
  const std::size_t depth = (w.cols() + kMmaDepth - 1) / kMmaDepth * kMmaDepth;
  const bool for_vectors = backend != Backend::scalar;
  const Rounded x(args, w.cols(), depth, w.dtype(), for_vectors);
  run_tasks(pool, w.panels(), [&](std::size_t begin, std::size_t end) {
    const detail::MmaRange range{static_cast<const std::uint16_t*>(w.data()),
                                 w.dtype(),
                                 w.rows(),
                                 w.cols(),
                                 begin,
                                 end,
                                 x.bits.data(),
                                 x.values.data(),
                                 x.powers.data(),
                                 x.finite.data(),
                                 args.m,
                                 depth,
                                 args.bias,
                                 args.y,
                                 args.y_stride};
    switch (backend) {
      case Backend::scalar:
        return detail::mma_scalar(range);
      case Backend::avx2:
        return detail::mma_avx2(range);
      case Backend::avx512:
        return detail::mma_avx512(range);
    }
  });
}

}  // namespace verbatim::kernels
