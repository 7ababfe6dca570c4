#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.hpp"
#include "kernels/rope/rope_element.hpp"

namespace verbatim::kernels::cuda {

void rope_rotate(const RopeArgs& args, cudaStream_t stream) {
  for_each(args.rows * args.heads * args.pairs, element::RopePair{args}, stream);
}

}  // namespace verbatim::kernels::cuda
