#pragma once
// RMS normalization as the GPU computes it: sums of blocks, one root a row, then one element at a time.

#include "kernels/cuda/arguments.hpp"
#include "kernels/cuda/shared_text.hpp"

namespace verbatim::kernels::element {

VERBATIM_SHARED std::size_t blocks_of(const cuda::RmsnormArgs& a) { return (a.cols + 255) / 256; }

struct RmsnormBlock {
  cuda::RmsnormArgs a;

  /// i = row * blocks + block: the sum of squares of a block.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const std::size_t row = i / blocks_of(a), begin = i % blocks_of(a) * 256;
    const std::size_t end = a.cols - begin < 256 ? a.cols : begin + 256;
    const float* x = a.x + row * a.x_stride;
    float s = 0;
    for (std::size_t k = begin; k < end; ++k) s = rn::fma(x[k], x[k], s);
    a.scratch[i] = s;
  }
};

struct RmsnormRow {
  cuda::RmsnormArgs a;

  /// i = row: 1 / sqrt(mean + eps), behind the sums.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const float* s = a.scratch + i * blocks_of(a);
    float ss = 0;
    for (std::size_t b = 0; b < blocks_of(a); ++b) ss = rn::add(ss, s[b]);
    const float mean = rn::div(ss, static_cast<float>(a.cols));
    a.scratch[a.rows * blocks_of(a) + i] = rn::div(1.0f, rn::sqrt(rn::add(mean, a.eps)));
  }
};

struct RmsnormElement {
  cuda::RmsnormArgs a;

  /// i = row * cols + column.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const std::size_t row = i / a.cols, c = i % a.cols;
    const float r = a.scratch[a.rows * blocks_of(a) + row];
    const float w = a.gemma_unit_offset ? rn::add(1.0f, a.w[c]) : a.w[c];
    a.y[row * a.y_stride + c] = rn::mul(rn::mul(a.x[row * a.x_stride + c], r), w);
  }
};

}  // namespace verbatim::kernels::element
