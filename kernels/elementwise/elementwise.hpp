#pragma once
// One rounding an element: residual additions, scales, soft-caps.

#include "kernels/backend.hpp"

#include <cstddef>

namespace verbatim::kernels {

/// x[i] = x[i] + branch[i].
void add_in_place(Backend backend, float* x, const float* branch, std::size_t count);
/// x[i] = x[i] * factor.
void scale_in_place(Backend backend, float* x, float factor, std::size_t count);
/// x[i] = cap * tanh(x[i] / cap).
void softcap_in_place(Backend backend, float* x, float cap, std::size_t count);
/// acc[i] = fma(weight, y[i], acc[i]): the sum over experts, in rank order.
void fma_in_place(Backend backend, float* acc, float weight, const float* y, std::size_t count);

}  // namespace verbatim::kernels
