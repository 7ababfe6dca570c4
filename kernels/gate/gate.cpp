#include "kernels/gate/gate.hpp"

#include "kernels/elementary/elementary.hpp"

#include <algorithm>
#include <cfloat>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

constexpr std::size_t kChunk = 256;

template <class Activation>
void gated(Activation activation, const float* gate, const float* up, std::size_t count,
           float* out) {
  float active[kChunk];
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t n = std::min(kChunk, count - begin);
    activation(gate + begin, n, active);
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = active[i] * up[begin + i];
  }
}

}  // namespace

void swiglu(Backend backend, const float* gate, const float* up, std::size_t count, float* out) {
  gated([&](const float* in, std::size_t n, float* to) { silu_f32(backend, in, n, to); }, gate, up,
        count, out);
}

void geglu(Backend backend, const float* gate, const float* up, std::size_t count, float* out) {
  gated([&](const float* in, std::size_t n, float* to) { gelu_tanh_f32(backend, in, n, to); }, gate,
        up, count, out);
}

}  // namespace verbatim::kernels
