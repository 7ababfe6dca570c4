#pragma once
// What the kernels' sources use of CUDA, for g++: found before the toolkit's header of this name. Not a CUDA for anything else.

#include "tests/gpu/emulation/block.hpp"
#include "tests/gpu/emulation/device.hpp"
#include "tests/gpu/emulation/memory.hpp"
#include "tests/gpu/emulation/schedule.hpp"
#include "tests/gpu/emulation/shared_array.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

// Markers.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

/// Names of CUDA that this folder provides are checked against it by the compiler of the real thing: a kernel that uses more
/// does not compile here.
#define VERBATIM_CUDA_EMULATION 1
#define VERBATIM_SHARED_ARRAY(type, name, count)            \
  [[maybe_unused]] const auto name = verbatim::emulation::shared_array<type>( \
      #name, (count), std::source_location::current())

// Barriers, shuffles, votes.

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  verbatim::emulation::barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location where = std::source_location::current()) {
  verbatim::emulation::warp_barrier(mask, where);
}

namespace verbatim::emulation {

template <class T>
T shuffle(unsigned mask, T value, unsigned lane, const char* what, std::source_location where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange_from(mask, bits, lane, what, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace verbatim::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int lane,
              std::source_location where = std::source_location::current()) {
  return verbatim::emulation::shuffle(mask, value, static_cast<unsigned>(lane) % 32, "__shfl_sync",
                                      where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits,
                  std::source_location where = std::source_location::current()) {
  return verbatim::emulation::shuffle(
      mask, value, verbatim::emulation::lane_index() ^ static_cast<unsigned>(bits),
      "__shfl_xor_sync", where);
}
/// Lanes below `by` get their own value back, as on the GPU.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by,
                 std::source_location where = std::source_location::current()) {
  const unsigned lane = verbatim::emulation::lane_index();
  return verbatim::emulation::shuffle(mask, value, lane < by ? lane : lane - by, "__shfl_up_sync",
                                      where);
}
inline unsigned __ballot_sync(unsigned mask, bool vote,
                              std::source_location where = std::source_location::current()) {
  const std::uint64_t* votes =
      verbatim::emulation::exchange(mask, vote ? 1 : 0, "__ballot_sync", where);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && votes[i] != 0) ballot |= 1u << i;
  }
  return ballot;
}
inline int __any_sync(unsigned mask, bool vote,
                      std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, vote, where) != 0;
}
inline int __all_sync(unsigned mask, bool vote,
                      std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, vote, where) == mask;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// Arithmetic rounded to nearest even.

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }

// The part of the runtime that launches, and moves memory.

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorIllegalAddress = 700,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
using cudaStream_t = struct CUstream_st*;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace verbatim::emulation {

/// What a call says on a device that is lost, or else `otherwise`.
inline cudaError_t status_or(cudaError_t otherwise) {
  const int lost = lost_with();
  return lost != 0 ? static_cast<cudaError_t>(lost) : otherwise;
}
/// What a call returns that fails by itself: cudaGetLastError tells it once more.
inline cudaError_t failed(cudaError_t status) {
  last_error() = status;
  return status;
}
inline cudaError_t copied(void* to, const void* from, std::size_t bytes, const void* a,
                          const void* b) {
  if (lost_with() != 0) return status_or(cudaSuccess);
  for (const void* device : {a, b}) {
    if (device != nullptr && bytes > 0 && bytes_at(device) < bytes)
      return failed(cudaErrorInvalidValue);
  }
  const KernelsMayTouchMemory open;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

}  // namespace verbatim::emulation

/// Throws Fault instead of returning an error of its own.
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args&&... args) {
  const std::tuple<Params...> values(std::forward<Args>(args)...);
  if (!verbatim::emulation::count_launch()) return verbatim::emulation::status_or(cudaSuccess);
  const verbatim::emulation::KernelsMayTouchMemory open;
  verbatim::emulation::run_grid(config->gridDim, config->blockDim,
                                [&] { std::apply(kernel, values); });
  verbatim::emulation::check_slack();
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (verbatim::emulation::lost_with() != 0) return verbatim::emulation::status_or(cudaSuccess);
  if (bytes > verbatim::emulation::bytes_left())
    return verbatim::emulation::failed(cudaErrorMemoryAllocation);
  *p = verbatim::emulation::allocate(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  verbatim::emulation::release(p);
  return verbatim::emulation::status_or(cudaSuccess);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return verbatim::emulation::copied(to, from, bytes,
                                     kind == cudaMemcpyDeviceToHost ? nullptr : to,
                                     kind == cudaMemcpyHostToDevice ? nullptr : from);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t) {
  if (verbatim::emulation::lost_with() != 0) return verbatim::emulation::status_or(cudaSuccess);
  if (bytes > 0 && verbatim::emulation::bytes_at(p) < bytes)
    return verbatim::emulation::failed(cudaErrorInvalidValue);
  const verbatim::emulation::KernelsMayTouchMemory open;
  if (bytes > 0) std::memset(p, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  *left = verbatim::emulation::bytes_left();
  *all = verbatim::emulation::device().memory_bytes;
  return verbatim::emulation::status_or(cudaSuccess);
}
inline cudaError_t cudaDeviceSynchronize() { return verbatim::emulation::status_or(cudaSuccess); }
inline cudaError_t cudaGetLastError() {
  const int last = std::exchange(verbatim::emulation::last_error(), 0);
  return verbatim::emulation::status_or(static_cast<cudaError_t>(last));
}

// Streams: everything happens when it is asked for.

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return verbatim::emulation::status_or(cudaSuccess);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return verbatim::emulation::status_or(cudaSuccess);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }

// What the device says of itself.

struct cudaDeviceProp {
  char name[256];
  int major, minor;
};
inline cudaError_t cudaGetDeviceCount(int* count) {
  const auto& device = verbatim::emulation::device();
  *count = device.count;
  if (device.driver_version < device.runtime_version)
    return verbatim::emulation::failed(cudaErrorInsufficientDriver);
  return device.count == 0 ? verbatim::emulation::failed(cudaErrorNoDevice) : cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const auto& device = verbatim::emulation::device();
  *properties = {"emulated device", device.major, device.minor};
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = verbatim::emulation::device().driver_version;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = verbatim::emulation::device().runtime_version;
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorIllegalAddress          ? "an illegal memory access was encountered"
         : status == cudaErrorUnsupportedPtxVersion ? "the provided PTX was compiled with an "
                                                      "unsupported toolchain."
                                                    : "refused by the emulation";
}
