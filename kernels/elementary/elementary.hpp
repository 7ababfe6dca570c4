#pragma once
// Correctly rounded elementary functions: the f32 nearest to the exact value, ties impossible or to even.
// Own code; nothing here asks libm for more than fma, sqrt and rint, so any machine gives the same bits.

#include "kernels/backend.hpp"

#include <cstddef>

namespace verbatim::kernels {

/// e^x. +0 for x < -87.33654 (the one place where small results are flushed), +infinity above the largest
/// finite result, NaN for NaN.
[[nodiscard]] float exp_f32(float x);
/// Natural logarithm. -infinity for +-0, NaN below zero.
[[nodiscard]] float log_f32(float x);
/// Hyperbolic tangent; tanh(-0) = -0.
[[nodiscard]] float tanh_f32(float x);
/// x / (1 + exp(-x)), each step rounded once.
[[nodiscard]] float silu_f32(float x);
/// u = x*x; p = fma(0.044715f, u, 1); z = (0.79788456f * x) * p; (0.5f * x) * (1 + tanh(z)).
[[nodiscard]] float gelu_tanh_f32(float x);

/// out[i] = f(in[i]); `in` and `out` may be the same array. Any alignment.
void exp_f32(Backend backend, const float* in, std::size_t count, float* out);
void log_f32(Backend backend, const float* in, std::size_t count, float* out);
void tanh_f32(Backend backend, const float* in, std::size_t count, float* out);
void silu_f32(Backend backend, const float* in, std::size_t count, float* out);
void gelu_tanh_f32(Backend backend, const float* in, std::size_t count, float* out);

}  // namespace verbatim::kernels
