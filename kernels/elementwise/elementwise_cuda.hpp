#pragma once
// Residual additions, scales, soft-caps, and the functions of elementary.hpp on the GPU: the bits of elementwise.hpp and
// elementary.hpp. All pointers are the device's.

#include <cuda_runtime.h>

#include <cstddef>

namespace verbatim::kernels::cuda {

void add_in_place(float* x, const float* branch, std::size_t count, cudaStream_t stream);
void scale_in_place(float* x, float factor, std::size_t count, cudaStream_t stream);
void softcap_in_place(float* x, float cap, std::size_t count, cudaStream_t stream);
void fma_in_place(float* acc, float weight, const float* y, std::size_t count, cudaStream_t stream);

/// out[i] = f(in[i]); may be one array.
void exp_f32(const float* in, std::size_t count, float* out, cudaStream_t stream);
void log_f32(const float* in, std::size_t count, float* out, cudaStream_t stream);
void tanh_f32(const float* in, std::size_t count, float* out, cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
