// A block of threads for each 16 rows of x and 16 outputs. Each warp chains the instruction over one block of K at a time;
// the partial sums meet in shared memory and are added in rising order. One kernel for any number of rows: what there is to
// share of x and w between neighbouring tiles, it does not share.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"
#include "kernels/matmul/matmul_cuda.hpp"
#include "kernels/mma/mma_cuda.hpp"
#include "kernels/mma/tensor_core.cuh"

#include <stdexcept>

namespace verbatim::kernels::cuda {

namespace {

constexpr unsigned kMmaRows = 16, kMmaK = 16;  // of one instruction; its 8 outputs are half a panel
constexpr unsigned kMmaWarps = 8;
constexpr unsigned kMmaTile =
    kMmaRows * kPanelRows;  // outputs of a block of threads, and its threads
static_assert(kMmaTile == kMmaWarps * 32);
constexpr std::uint32_t kHalfNan = 0x7fff;  // of bf16 and of f16

/// Bits of what is not finite become those of a NaN: whatever it is multiplied with, the sum is none.
template <Dtype dtype>
__device__ inline std::uint32_t finite_or_nan(std::uint32_t half) {
  constexpr std::uint32_t exponent = dtype == Dtype::bf16 ? 0x7f80u : 0x7c00u;
  return (half & exponent) == exponent ? kHalfNan : half;
}

/// As f32_to_bf16() and f32_to_f16(): to the nearest, ties to even.
template <Dtype dtype>
__device__ inline std::uint32_t rounded_half(float x) {
  const std::uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return kHalfNan;
  if constexpr (dtype == Dtype::bf16) {
    return finite_or_nan<dtype>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  } else {
    if (magnitude >= 0x477ff000u) return kHalfNan;  // becomes an infinity
    if (magnitude < 0x38800000u)
      return sign | (bits_of(rn::add(f32_of(magnitude), 0.5f)) - 0x3f000000u);
    return sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13);
  }
}

struct MmaOperands {
  const std::uint16_t* weights;
  MatmulArgs product;
  std::size_t rows, cols;
};

/// Elements (row, k) and (row, k + 1) of x; zeros beyond its edges.
template <Dtype dtype>
__device__ inline std::uint32_t pair_of_x(const MmaOperands& a, std::size_t row, std::size_t k) {
  if (row >= a.product.m) return 0;
  const float* x = a.product.x + row * a.product.x_stride;
  const std::uint32_t low = k < a.cols ? rounded_half<dtype>(x[k]) : 0;
  const std::uint32_t high = k + 1 < a.cols ? rounded_half<dtype>(x[k + 1]) : 0;
  return low | high << 16;
}

/// Weights (k, n) and (k + 1, n) of a panel.
template <Dtype dtype>
__device__ inline std::uint32_t pair_of_w(const MmaOperands& a, std::size_t panel, unsigned n,
                                          std::size_t k) {
  const std::uint16_t* w = a.weights + (panel * a.cols + k) * kPanelRows + n;
  const std::uint32_t low = k < a.cols ? finite_or_nan<dtype>(w[0]) : 0;
  const std::uint32_t high = k + 1 < a.cols ? finite_or_nan<dtype>(w[kPanelRows]) : 0;
  return low | high << 16;
}

/// An accumulator as the profile has it: no number when it is not finite, or not zero and below 2^-100.
__device__ inline float in_range(float c) {
  const float magnitude = f32_of(bits_of(c) & 0x7fffffffu);
  return c == 0 || (magnitude >= 0x1p-100f && finite(c)) ? c : f32_of(0x7fffffffu);
}

/// Grid: (panels, rows / 16).
template <Dtype dtype>
__global__ void __launch_bounds__(kMmaTile) mma_kernel(MmaOperands a) {
  VERBATIM_SHARED_ARRAY(float, partial, kMmaWarps* kMmaTile);  // (block of K, row, output)
  const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
  const unsigned g = lane / 4, pair = lane % 4 * 2;
  const std::size_t panel = blockIdx.x, first_row = static_cast<std::size_t>(blockIdx.y) * kMmaRows;
  const unsigned blocks = pieces(a.cols, kBlock);

  float total = 0;  // of row t / 16, output t % 16
  for (unsigned round = 0; round < blocks; round += kMmaWarps) {
    if (round + warp < blocks) {
      const std::size_t first = static_cast<std::size_t>(round + warp) * kBlock;
      const std::size_t end = a.cols - first < kBlock ? a.cols : first + kBlock;
      float c[2][4] = {};  // of outputs 0 to 7 and 8 to 15
      for (std::size_t k = first; k < end; k += kMmaK) {
        Fragments f;
        f.a[0] = pair_of_x<dtype>(a, first_row + g, k + pair);
        f.a[1] = pair_of_x<dtype>(a, first_row + g + 8, k + pair);
        f.a[2] = pair_of_x<dtype>(a, first_row + g, k + pair + 8);
        f.a[3] = pair_of_x<dtype>(a, first_row + g + 8, k + pair + 8);
        for (unsigned half = 0; half < 2; ++half) {
          f.b[0] = pair_of_w<dtype>(a, panel, half * 8 + g, k + pair);
          f.b[1] = pair_of_w<dtype>(a, panel, half * 8 + g, k + pair + 8);
          multiply_add<dtype>(f, c[half]);
          for (float& each : c[half]) each = in_range(each);
        }
      }
      for (unsigned half = 0; half < 2; ++half) {
        for (unsigned i = 0; i < 4; ++i)
          partial[warp * kMmaTile + (g + i / 2 * 8) * kPanelRows + half * 8 + pair + i % 2] =
              c[half][i];
      }
    }
    __syncthreads();  // all sums of the round are there
    const unsigned count = blocks - round < kMmaWarps ? blocks - round : kMmaWarps;
    for (unsigned b = 0; b < count; ++b) total = rn::add(total, partial[b * kMmaTile + t]);
    __syncthreads();  // and have been added
  }
  const std::size_t row = first_row + t / kPanelRows, n = panel * kPanelRows + t % kPanelRows;
  if (row >= a.product.m || n >= a.rows) return;
  const float* bias = a.product.bias;
  a.product.y[row * a.product.y_stride + n] = bias != nullptr ? rn::add(total, bias[n]) : total;
}

}  // namespace

void mma_matmul(const Weights& weights, const MatmulArgs& args, cudaStream_t stream) {
  if (args.m == 0 || weights.rows == 0) return;
  const MmaOperands a{static_cast<const std::uint16_t*>(weights.data), args, weights.rows,
                      weights.cols};
  const dim3 grid(pieces(weights.rows, kPanelRows), pieces(args.m, kMmaRows));
  switch (weights.dtype) {
    case Dtype::bf16:
      return launch(mma_kernel<Dtype::bf16>, grid, kMmaTile, stream, a);
    case Dtype::f16:
      return launch(mma_kernel<Dtype::f16>, grid, kMmaTile, stream, a);
    default:
      throw std::invalid_argument("tensor cores multiply bf16 and f16 weights");
  }
}

}  // namespace verbatim::kernels::cuda
