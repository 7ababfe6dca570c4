#pragma once
// Weights as they are stored, read on the GPU two or eight at a time. The conversions are exact.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"
#include "kernels/dtype.hpp"

#include <cstddef>

namespace verbatim::kernels::cuda {

__device__ inline float bf16(std::uint32_t bits) { return f32_of(bits << 16); }

__device__ inline float f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return f32_of(sign | 0x7f800000u | magnitude);  // infinity, NaN
  // The exponent's bias differs by 112; subnormals become what they are worth.
  return f32_of(sign | bits_of(rn::mul(f32_of(magnitude), 0x1p112f)));
}

template <Dtype dtype>
__device__ inline float half(std::uint32_t bits) {
  return dtype == Dtype::bf16 ? bf16(bits) : f16(bits);
}

/// Two neighbouring elements as stored.
template <Dtype dtype>
struct Pair {
  std::uint32_t bits;
};
template <>
struct Pair<Dtype::f32> {
  float2 values;
};

/// Elements `at` and at + 1; `at` is even.
template <Dtype dtype>
__device__ inline Pair<dtype> load_pair(const void* weights, std::size_t at) {
  if constexpr (dtype == Dtype::f32) {
    return {*reinterpret_cast<const float2*>(static_cast<const float*>(weights) + at)};
  } else {
    return {
        *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(weights) + at)};
  }
}
template <Dtype dtype>
__device__ inline float first_of(Pair<dtype> pair) {
  if constexpr (dtype == Dtype::f32) {
    return pair.values.x;
  } else {
    return half<dtype>(pair.bits & 0xffffu);
  }
}
template <Dtype dtype>
__device__ inline float second_of(Pair<dtype> pair) {
  if constexpr (dtype == Dtype::f32) {
    return pair.values.y;
  } else {
    return half<dtype>(pair.bits >> 16);
  }
}

/// Elements `at` to at + 7; `at` is a multiple of 8.
template <Dtype dtype>
__device__ inline void load_eight(const void* weights, std::size_t at, float4 (&out)[2]) {
  if constexpr (dtype == Dtype::f32) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(weights) + at);
    out[0] = from[0];
    out[1] = from[1];
  } else {
    const uint4 w =
        *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(weights) + at);
    out[0] = {half<dtype>(w.x & 0xffffu), half<dtype>(w.x >> 16), half<dtype>(w.y & 0xffffu),
              half<dtype>(w.y >> 16)};
    out[1] = {half<dtype>(w.z & 0xffffu), half<dtype>(w.z >> 16), half<dtype>(w.w & 0xffffu),
              half<dtype>(w.w >> 16)};
  }
}

/// Element (n, k).
__device__ inline float element(const void* weights, Dtype dtype, std::size_t cols, std::size_t n,
                                std::size_t k) {
  const std::size_t at = (n / kPanelRows * cols + k) * kPanelRows + n % kPanelRows;
  if (dtype == Dtype::f32) return static_cast<const float*>(weights)[at];
  const std::uint32_t bits = static_cast<const std::uint16_t*>(weights)[at];
  return dtype == Dtype::bf16 ? bf16(bits) : f16(bits);
}

}  // namespace verbatim::kernels::cuda
