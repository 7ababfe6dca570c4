#pragma once
// Arithmetic of the kernels: one rounding to nearest even each, by the intrinsics that no flag can fuse or weaken.

#include "kernels/cuda/shared_text.hpp"

#include <cuda_runtime.h>

namespace verbatim::kernels {

__device__ inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
__device__ inline float f32_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
__device__ inline float infinity() { return f32_of(0x7f800000u); }
__device__ inline bool finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

namespace rn {

__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float div(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline float sqrt(float a) { return __fsqrt_rn(a); }
__device__ inline float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double sub(double a, double b) { return __dsub_rn(a, b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double div(double a, double b) { return __ddiv_rn(a, b); }
__device__ inline double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ inline float to_f32(double a) { return __double2float_rn(a); }

}  // namespace rn
}  // namespace verbatim::kernels
