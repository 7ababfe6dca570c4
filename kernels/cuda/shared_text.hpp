#pragma once
// What lets one text be compiled for the GPU (by nvcc) and for the CPU (by g++, where the tests run it): markers, and
// arithmetic whose rounding is written out.

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define VERBATIM_SHARED __device__ inline
#define VERBATIM_MEMBER __device__
#else
#define VERBATIM_SHARED inline
#define VERBATIM_MEMBER
#endif

namespace verbatim::kernels {

VERBATIM_SHARED std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
VERBATIM_SHARED double f64_of(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
VERBATIM_SHARED float f32_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// One rounding to nearest even each: on the GPU the intrinsics that no flag can fuse or weaken.
namespace rn {

#ifdef __CUDACC__
VERBATIM_SHARED float add(float a, float b) { return __fadd_rn(a, b); }
VERBATIM_SHARED float sub(float a, float b) { return __fsub_rn(a, b); }
VERBATIM_SHARED float mul(float a, float b) { return __fmul_rn(a, b); }
VERBATIM_SHARED float div(float a, float b) { return __fdiv_rn(a, b); }
VERBATIM_SHARED float sqrt(float a) { return __fsqrt_rn(a); }
VERBATIM_SHARED float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
VERBATIM_SHARED double add(double a, double b) { return __dadd_rn(a, b); }
VERBATIM_SHARED double sub(double a, double b) { return __dsub_rn(a, b); }
VERBATIM_SHARED double mul(double a, double b) { return __dmul_rn(a, b); }
VERBATIM_SHARED double div(double a, double b) { return __ddiv_rn(a, b); }
VERBATIM_SHARED double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
VERBATIM_SHARED float to_f32(double a) { return __double2float_rn(a); }
#else
VERBATIM_SHARED float add(float a, float b) { return a + b; }
VERBATIM_SHARED float sub(float a, float b) { return a - b; }
VERBATIM_SHARED float mul(float a, float b) { return a * b; }
VERBATIM_SHARED float div(float a, float b) { return a / b; }
VERBATIM_SHARED float sqrt(float a) { return std::sqrt(a); }
VERBATIM_SHARED float fma(float a, float b, float c) { return std::fma(a, b, c); }
VERBATIM_SHARED double add(double a, double b) { return a + b; }
VERBATIM_SHARED double sub(double a, double b) { return a - b; }
VERBATIM_SHARED double mul(double a, double b) { return a * b; }
VERBATIM_SHARED double div(double a, double b) { return a / b; }
VERBATIM_SHARED double fma(double a, double b, double c) { return std::fma(a, b, c); }
VERBATIM_SHARED float to_f32(double a) { return static_cast<float>(a); }
#endif

}  // namespace rn
}  // namespace verbatim::kernels
