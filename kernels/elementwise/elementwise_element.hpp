#pragma once
// Elementwise operators and gates, one element at a time, as the GPU computes them.

#include "kernels/cuda/shared_text.hpp"
#include "kernels/elementary/elementary_element.hpp"

#include <cstddef>

namespace verbatim::kernels::element {

struct Swiglu {
  const float *gate, *up;
  float* out;
  VERBATIM_MEMBER void operator()(std::size_t i) const { out[i] = rn::mul(silu(gate[i]), up[i]); }
};
struct Geglu {
  const float *gate, *up;
  float* out;
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    out[i] = rn::mul(gelu_tanh(gate[i]), up[i]);
  }
};
struct Add {
  float* x;
  const float* branch;
  VERBATIM_MEMBER void operator()(std::size_t i) const { x[i] = rn::add(x[i], branch[i]); }
};
struct Scale {
  float* x;
  float factor;
  VERBATIM_MEMBER void operator()(std::size_t i) const { x[i] = rn::mul(x[i], factor); }
};
struct Softcap {
  float* x;
  float cap;
  VERBATIM_MEMBER void operator()(std::size_t i) const { x[i] = softcap(x[i], cap); }
};
struct Fma {
  float* acc;
  float weight;
  const float* y;
  VERBATIM_MEMBER void operator()(std::size_t i) const { acc[i] = rn::fma(weight, y[i], acc[i]); }
};

}  // namespace verbatim::kernels::element
