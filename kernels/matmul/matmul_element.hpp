#pragma once
// The matrix product, one output at a time, as the GPU computes it.

#include "kernels/cuda/arguments.hpp"
#include "kernels/cuda/shared_text.hpp"

namespace verbatim::kernels::element {

VERBATIM_SHARED float half_to_f32(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return f32_of(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return f32_of(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = rn::mul(static_cast<float>(fraction), 0x1p-24f);  // exact
  return sign != 0 ? -magnitude : magnitude;
}

/// Element (n, k) of packed weights.
VERBATIM_SHARED float weight_at(const cuda::MatmulArgs& a, std::size_t n, std::size_t k) {
  const std::size_t at = ((n / 16) * a.cols + k) * 16 + n % 16;
  if (a.dtype == Dtype::f32) return static_cast<const float*>(a.weights)[at];
  const std::uint32_t half = static_cast<const std::uint16_t*>(a.weights)[at];
  return a.dtype == Dtype::bf16 ? f32_of(half << 16) : half_to_f32(half);
}

struct Matmul {
  cuda::MatmulArgs a;

  /// i = row * N + n.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const std::size_t row = i / a.rows, n = i % a.rows;
    const float* x = a.x + row * a.x_stride;
    float t = 0;
    for (std::size_t block = 0; block < a.cols; block += 256) {
      const std::size_t end = a.cols - block < 256 ? a.cols : block + 256;
      float s = 0;
      for (std::size_t k = block; k < end; ++k) s = rn::fma(x[k], weight_at(a, n, k), s);
      t = rn::add(t, s);
    }
    a.y[row * a.y_stride + n] = a.bias != nullptr ? rn::add(t, a.bias[n]) : t;
  }
};

}  // namespace verbatim::kernels::element
