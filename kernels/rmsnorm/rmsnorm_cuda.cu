// A block of threads a row: the row is staged in shared memory, each of a few threads sums the squares of one block of 256.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"
#include "kernels/rmsnorm/rmsnorm_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

constexpr unsigned kStagedBlocks = 16;
constexpr unsigned kStride = kBlock + 1;  // blocks begin in different banks

__global__ void __launch_bounds__(256) rmsnorm_kernel(RmsnormArgs a) {
  VERBATIM_SHARED_ARRAY(float, staged, kStagedBlocks* kStride);  // (block, k)
  VERBATIM_SHARED_ARRAY(float, sums, kStagedBlocks);
  VERBATIM_SHARED_ARRAY(float, root, 1);
  const unsigned t = threadIdx.x;
  const std::size_t row = blockIdx.x / a.parts, part = blockIdx.x % a.parts;
  const float* x = a.x + row * a.x_stride + part * a.cols;
  float* y = a.y + row * a.y_stride + part * a.cols;

  float ss = 0;  // the first thread's
  for (std::size_t begin = 0; begin < a.cols; begin += kStagedBlocks * kBlock) {
    const std::size_t left = a.cols - begin;
    const unsigned count =
        static_cast<unsigned>(left < kStagedBlocks * kBlock ? left : kStagedBlocks * kBlock);
    for (unsigned i = t; i < count; i += blockDim.x)
      staged[i / kBlock * kStride + i % kBlock] = x[begin + i];
    __syncthreads();  // the values are there
    const unsigned blocks = pieces(count, kBlock);
    if (t < blocks) {
      const unsigned depth = count - t * kBlock < kBlock ? count - t * kBlock : kBlock;
      float s = 0;
      for (unsigned k = 0; k < depth; ++k) {
        const float value = staged[t * kStride + k];
        s = rn::fma(value, value, s);
      }
      sums[t] = s;
    }
    __syncthreads();  // the sums are there
    if (t == 0) {
      for (unsigned b = 0; b < blocks; ++b) ss = rn::add(ss, sums[b]);
    }
  }
  if (t == 0) {
    const float mean = rn::div(ss, static_cast<float>(a.cols));
    root[0] = rn::div(1.0f, rn::sqrt(rn::add(mean, a.eps)));
  }
  __syncthreads();  // the root is there
  const float r = root[0];
  for (std::size_t c = t; c < a.cols; c += blockDim.x) {
    const float w = a.gemma_unit_offset ? rn::add(1.0f, a.w[c]) : a.w[c];
    y[c] = rn::mul(rn::mul(x[c], r), w);
  }
}

}  // namespace

void rmsnorm(const RmsnormArgs& args, cudaStream_t stream) {
  if (args.rows * args.parts == 0) return;
  launch(rmsnorm_kernel, dim3(static_cast<unsigned>(args.rows * args.parts)), 256, stream, args);
}

}  // namespace verbatim::kernels::cuda
