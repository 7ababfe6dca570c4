#include "kernels/cuda/launch.cuh"
#include "kernels/elementary/elementary_cuda.cuh"
#include "kernels/gate/gate_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

template <bool gelu>
struct Gate {
  GateArgs a;

  /// i = row * cols + column.
  __device__ void operator()(std::size_t i) const {
    const std::size_t row = i / a.cols, c = i % a.cols;
    const float gate = a.gate[row * a.in_stride + c];
    const float active = gelu ? gelu_tanh(gate) : silu(gate);
    a.out[row * a.out_stride + c] = rn::mul(active, a.up[row * a.in_stride + c]);
  }
};

}  // namespace

void swiglu(const GateArgs& args, cudaStream_t stream) {
  for_each(args.rows * args.cols, Gate<false>{args}, stream);
}
void geglu(const GateArgs& args, cudaStream_t stream) {
  for_each(args.rows * args.cols, Gate<true>{args}, stream);
}

}  // namespace verbatim::kernels::cuda
