#pragma once
// What lets one text be compiled for the GPU and for the CPU.

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define VERBATIM_SHARED __device__ inline
#define VERBATIM_NOT_INLINED __noinline__
#else
#define VERBATIM_SHARED inline
#define VERBATIM_NOT_INLINED [[gnu::noinline]]
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

}  // namespace verbatim::kernels
