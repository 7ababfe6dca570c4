#pragma once
// The products of profile mma-hopper/1 on the GPU: the bits of mma.hpp. All pointers are the device's.

#include "kernels/matmul/matmul_cuda.hpp"

#include <cuda_runtime.h>

namespace verbatim::kernels::cuda {

/// Whether the tensor cores of a card with this compute capability are the class that the profile describes: Hopper's and
/// those of data center Blackwell. Others add in other groups and widths; they must not be used under this name.
[[nodiscard]] constexpr bool computes_mma_hopper(int major) { return major == 9 || major == 10; }

/// As mma_matmul() of mma.hpp; the weights are bf16 or f16. Only on a card for which computes_mma_hopper() is true.
void mma_matmul(const Weights& weights, const MatmulArgs& args, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
