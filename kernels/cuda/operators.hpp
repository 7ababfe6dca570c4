#pragma once
// The GPU versions of the operators, with device pointers, queued on a stream. Each output (or block of positions) is one
// thread's chain: correct first, not yet fast. What a launch returns is left for cudaGetLastError of the caller.
// Numerics: those of the CPU headers, to the bit.

#include "kernels/cuda/arguments.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

void matmul(const MatmulArgs& args, cudaStream_t stream);
void rmsnorm(const RmsnormArgs& args, cudaStream_t stream);
void rope_rotate(const RopeArgs& args, cudaStream_t stream);
void attention(const AttentionArgs& args, cudaStream_t stream);
void swiglu(const float* gate, const float* up, std::size_t count, float* out, cudaStream_t stream);
void geglu(const float* gate, const float* up, std::size_t count, float* out, cudaStream_t stream);
void add_in_place(float* x, const float* branch, std::size_t count, cudaStream_t stream);
void scale_in_place(float* x, float factor, std::size_t count, cudaStream_t stream);
void softcap_in_place(float* x, float cap, std::size_t count, cudaStream_t stream);
void fma_in_place(float* acc, float weight, const float* y, std::size_t count, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
