#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"
#include "kernels/rope/rope_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

struct RopePair {
  RopeArgs a;

  /// i = (row * heads + head) * pairs + pair.
  __device__ void operator()(std::size_t i) const {
    const std::size_t pair = i % a.pairs, head = i / a.pairs % a.heads, row = i / a.pairs / a.heads;
    float* x = a.x + row * a.x_stride + head * a.head_dim;
    float& first = x[a.interleaved ? 2 * pair : pair];
    float& second = x[a.interleaved ? 2 * pair + 1 : pair + a.pairs];
    const float c = a.cos[a.positions[row] * a.pairs + pair];
    const float s = a.sin[a.positions[row] * a.pairs + pair];
    const float x0 = first, x1 = second;
    first = rn::fma(x0, c, -rn::mul(x1, s));
    second = rn::fma(x0, s, rn::mul(x1, c));
  }
};

}  // namespace

void rope_rotate(const RopeArgs& args, cudaStream_t stream) {
  for_each(args.rows * args.heads * args.pairs, RopePair{args}, stream);
}

}  // namespace verbatim::kernels::cuda
