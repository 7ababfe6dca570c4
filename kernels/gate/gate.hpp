#pragma once
// Gated activations of the feed-forward layer.

#include "kernels/backend.hpp"

#include <cstddef>

namespace verbatim::kernels {

/// out[i] = silu(gate[i]) * up[i]; each step rounded once. Arrays of `count`; out may be gate or up.
void swiglu(Backend backend, const float* gate, const float* up, std::size_t count, float* out);
/// out[i] = gelu_tanh(gate[i]) * up[i].
void geglu(Backend backend, const float* gate, const float* up, std::size_t count, float* out);

}  // namespace verbatim::kernels
