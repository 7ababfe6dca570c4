#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.hpp"
#include "kernels/matmul/matmul_element.hpp"

namespace verbatim::kernels::cuda {

void matmul(const MatmulArgs& args, cudaStream_t stream) {
  for_each(args.m * args.rows, element::Matmul{args}, stream);
}

}  // namespace verbatim::kernels::cuda
