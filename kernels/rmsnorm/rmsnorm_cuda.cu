#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.hpp"
#include "kernels/rmsnorm/rmsnorm_element.hpp"

namespace verbatim::kernels::cuda {

void rmsnorm(const RmsnormArgs& args, cudaStream_t stream) {
  for_each(args.rows * ((args.cols + 255) / 256), element::RmsnormBlock{args}, stream);
  for_each(args.rows, element::RmsnormRow{args}, stream);
  for_each(args.rows * args.cols, element::RmsnormElement{args}, stream);
}

}  // namespace verbatim::kernels::cuda
