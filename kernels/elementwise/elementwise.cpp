// Bound by memory: the baseline's vectors (the compiler's own) are enough for add and scale on every backend.

#include "kernels/elementwise/elementwise.hpp"

#include "kernels/elementary/elementary.hpp"

#include <algorithm>
#include <cfloat>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

constexpr std::size_t kChunk = 256;

[[gnu::always_inline]] inline void fma_body(float* acc, float weight, const float* y,
                                            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) acc[i] = __builtin_fmaf(weight, y[i], acc[i]);
}
void fma_portable(float* acc, float weight, const float* y, std::size_t count) {
  fma_body(acc, weight, y, count);
}
[[gnu::target("fma")]] void fma_wide(float* acc, float weight, const float* y, std::size_t count) {
  fma_body(acc, weight, y, count);
}

}  // namespace

void add_in_place(Backend, float* x, const float* branch, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] + branch[i];
}

void scale_in_place(Backend, float* x, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] * factor;
}

void softcap_in_place(Backend backend, float* x, float cap, std::size_t count) {
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t n = std::min(kChunk, count - begin);
    float* part = x + begin;
    for (std::size_t i = 0; i < n; ++i) part[i] = part[i] / cap;
    tanh_f32(backend, part, n, part);
    for (std::size_t i = 0; i < n; ++i) part[i] = cap * part[i];
  }
}

void fma_in_place(Backend backend, float* acc, float weight, const float* y, std::size_t count) {
  (backend == Backend::scalar ? fma_portable : fma_wide)(acc, weight, y, count);
}

}  // namespace verbatim::kernels
