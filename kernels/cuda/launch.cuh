#pragma once
// What all CUDA sources share: launches, shared arrays, vector loads. They use no <<<>>>, and declare shared memory by the
// macro below alone, so that the tests' emulation (tests/gpu/emulation) can compile and check them without CUDA.

#include "kernels/block.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

/// An array in the block's shared memory, 16-byte aligned. `type` has no constructor.
#ifndef VERBATIM_SHARED_ARRAY
#define VERBATIM_SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]
#endif

namespace verbatim::kernels::cuda {

/// Errors are left for cudaGetLastError of the caller.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, unsigned threads, cudaStream_t stream,
            Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// Blocks of `size` that cover `count`.
[[nodiscard]] __host__ __device__ constexpr unsigned pieces(std::size_t count, std::size_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

template <class Element>
__global__ void __launch_bounds__(256) for_each_kernel(std::size_t count, Element element) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) element(i);
}
/// One thread for each index below `count`. `element` is copied to the GPU; element(i) must write only what belongs to i.
template <class Element>
void for_each(std::size_t count, const Element& element, cudaStream_t stream) {
  if (count == 0) return;  // a grid of zero blocks is a launch error
  launch(for_each_kernel<Element>, dim3(pieces(count, 256)), 256, stream, count, element);
}

/// Four floats from a 16-byte aligned address, and to one.
__device__ inline float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

/// Whether rows that begin at `p`, `stride` floats apart, can be read four floats at a time.
__device__ inline bool aligned4(const float* p, std::size_t stride) {
  return (reinterpret_cast<std::size_t>(p) | stride * sizeof(float)) % 16 == 0;
}
__device__ inline float4 load4(const float* p, bool aligned) {
  return aligned ? load4(p) : float4{p[0], p[1], p[2], p[3]};
}

/// Those of block.hpp, for indices of 32 bits.
inline constexpr unsigned kBlock = kernels::kBlock, kPanelRows = kernels::kPanelRows;

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The largest of a warp's values, which are no NaN, in every lane. Of zeros of both signs it may be either.
__device__ inline float warp_max(float x) {
  for (int apart = 16; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, apart);
    x = x > other ? x : other;
  }
  return x;
}

}  // namespace verbatim::kernels::cuda
