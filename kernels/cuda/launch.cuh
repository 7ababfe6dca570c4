#pragma once
// One thread for each index below a count.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

template <class Element>
__global__ void __launch_bounds__(256) for_each_kernel(std::size_t count, Element element) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) element(i);
}

/// `element` is copied to the GPU; element(i) must write only what belongs to i.
template <class Element>
void for_each(std::size_t count, const Element& element, cudaStream_t stream) {
  if (count == 0) return;  // a grid of zero blocks is a launch error
  for_each_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(count, element);
}

}  // namespace verbatim::kernels::cuda
