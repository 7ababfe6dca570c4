#pragma once
// The order in which tokens, and experts, are ranked: value descending, id ascending. Any reduction over it gives the same
// result, since no two ids are equal.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"

#include <cstdint>

namespace verbatim::kernels::cuda {

struct Ranked {
  float value;
  std::int32_t id;
};
inline constexpr std::int32_t kNoId = 0x7fffffff;

__device__ inline Ranked no_candidate() { return {-infinity(), kNoId}; }
/// Of values that are no NaN.
__device__ inline bool before(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// The first of a warp's, in every lane.
__device__ inline Ranked warp_first(Ranked x) {
  for (int apart = 16; apart > 0; apart /= 2) {
    const Ranked other{__shfl_xor_sync(kAllLanes, x.value, apart),
                       __shfl_xor_sync(kAllLanes, x.id, apart)};
    if (before(other, x)) x = other;
  }
  return x;
}

/// The first two of what has been added; no_candidate() where there are fewer.
struct TopTwo {
  Ranked first, second;

  __device__ void add(const Ranked& x) {
    if (before(x, first)) {
      second = first;
      first = x;
    } else if (before(x, second)) {
      second = x;
    }
  }
};
__device__ inline TopTwo no_top_two() { return {no_candidate(), no_candidate()}; }

/// Of all threads of a block of at most 256, in every thread. A barrier of the block.
__device__ inline TopTwo block_top_two(TopTwo x) {
  VERBATIM_SHARED_ARRAY(TopTwo, of_warps, 8);
  for (int apart = 16; apart > 0; apart /= 2) {
    const Ranked first{__shfl_xor_sync(kAllLanes, x.first.value, apart),
                       __shfl_xor_sync(kAllLanes, x.first.id, apart)};
    const Ranked second{__shfl_xor_sync(kAllLanes, x.second.value, apart),
                        __shfl_xor_sync(kAllLanes, x.second.id, apart)};
    x.add(first);
    x.add(second);
  }
  __syncthreads();  // an earlier call's have been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();  // the warps' are there
  TopTwo all = no_top_two();
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    const TopTwo of_warp = of_warps[w];
    all.add(of_warp.first);
    all.add(of_warp.second);
  }
  return all;
}

/// The sum over all threads of a block of at most 256, in every thread. A barrier of the block.
__device__ inline unsigned block_sum(unsigned x) {
  VERBATIM_SHARED_ARRAY(unsigned, of_warps, 8);
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(kAllLanes, x, apart);
  __syncthreads();  // an earlier call's have been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();  // the warps' are there
  unsigned sum = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += of_warps[w];
  return sum;
}

}  // namespace verbatim::kernels::cuda
