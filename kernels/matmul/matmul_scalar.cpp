// The order of additions as the profile writes it, and nothing else: the text that the other versions are compared with.

#include "kernels/matmul/detail.hpp"
#include "kernels/matmul/matmul.hpp"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <vector>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {
namespace detail {
namespace {

// Inlined into a portable function, where fma is a call of the C library, and into one for processors that have the
// instruction: the same bits, ten times faster.
#define VERBATIM_BODY [[gnu::always_inline]] inline

constexpr std::size_t kPanel = PackedWeights::kPanel;

/// One row of x times one panel: y (16).
VERBATIM_BODY void panel_body(const float* x, const float* w, std::size_t cols, float* y) {
  float total[kPanel] = {};
  for (std::size_t begin = 0; begin < cols; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, cols);
    float s[kPanel] = {};
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t n = 0; n < kPanel; ++n) {
        s[n] = __builtin_fmaf(x[k], w[k * kPanel + n], s[n]);
      }
    }
    for (std::size_t n = 0; n < kPanel; ++n) total[n] = total[n] + s[n];
  }
  for (std::size_t n = 0; n < kPanel; ++n) y[n] = total[n];
}

void panel_portable(const float* x, const float* w, std::size_t cols, float* y) {
  panel_body(x, w, cols, y);
}
[[gnu::target("fma")]] void panel_fma(const float* x, const float* w, std::size_t cols, float* y) {
  panel_body(x, w, cols, y);
}

/// Partial sums of `blocks` whole blocks side by side: they are independent chains, so the processor overlaps them.
template <std::size_t blocks>
VERBATIM_BODY void dot_blocks(const float* a, const float* b, float* s) {
  float chain[blocks] = {};
  for (std::size_t k = 0; k < kBlock; ++k) {
    for (std::size_t i = 0; i < blocks; ++i) {
      chain[i] = __builtin_fmaf(a[i * kBlock + k], b[i * kBlock + k], chain[i]);
    }
  }
  for (std::size_t i = 0; i < blocks; ++i) s[i] = chain[i];
}

VERBATIM_BODY float dot_body(const float* a, const float* b, std::size_t count) {
  constexpr std::size_t kSide = 8;
  float total = 0;
  std::size_t at = 0;
  for (; at + kSide * kBlock <= count; at += kSide * kBlock) {
    float s[kSide];
    dot_blocks<kSide>(a + at, b + at, s);
    for (const float part : s) total = total + part;
  }
  for (; at + kBlock <= count; at += kBlock) {
    float s[1];
    dot_blocks<1>(a + at, b + at, s);
    total = total + s[0];
  }
  if (at < count) {
    float s = 0;
    for (std::size_t k = at; k < count; ++k) s = __builtin_fmaf(a[k], b[k], s);
    total = total + s;
  }
  return total;
}

float dot_portable(const float* a, const float* b, std::size_t count) {
  return dot_body(a, b, count);
}
[[gnu::target("fma")]] float dot_fma(const float* a, const float* b, std::size_t count) {
  return dot_body(a, b, count);
}

using Panel = void (*)(const float*, const float*, std::size_t, float*);

/// Panel p as (cols, 16) floats.
void unpack_panel(const PanelRange& range, std::size_t p, std::vector<float>& panel) {
  if (range.row_data == nullptr) {
    const auto* stored = static_cast<const std::byte*>(range.weights);
    return to_f32(stored + p * kPanel * row_bytes(range.dtype, range.cols), range.dtype,
                  panel.size(), panel.data());
  }
  std::vector<float> row(range.cols);
  for (std::size_t n = 0; n < kPanel; ++n) {
    to_f32(range.row_data[p * kPanel + n], range.dtype, range.cols, row.data());
    for (std::size_t k = 0; k < range.cols; ++k) panel[k * kPanel + n] = row[k];
  }
}

void matmul_with(Panel panel_product, const PanelRange& range) {
  std::vector<float> panel(range.cols * kPanel);
  for (std::size_t p = range.begin; p < range.end; ++p) {
    unpack_panel(range, p, panel);
    const std::size_t lanes = std::min(kPanel, range.rows - p * kPanel);
    for (std::size_t row = 0; row < range.m; ++row) {
      float y[kPanel];
      panel_product(range.x + row * range.x_stride, panel.data(), range.cols, y);
      for (std::size_t n = 0; n < lanes; ++n) {
        const std::size_t column = p * kPanel + n;
        range.y[row * range.y_stride + column] =
            range.bias != nullptr ? y[n] + range.bias[column] : y[n];
      }
    }
  }
}

const bool kHasFma = __builtin_cpu_supports("fma");

}  // namespace

void matmul_scalar(const PanelRange& range) {
  matmul_with(kHasFma ? panel_fma : panel_portable, range);
}
void matmul_portable(const PanelRange& range) { matmul_with(panel_portable, range); }

}  // namespace detail

float dot(const float* a, const float* b, std::size_t count) {
  return (detail::kHasFma ? detail::dot_fma : detail::dot_portable)(a, b, count);
}

float sum(const float* a, std::size_t count) {
  float total = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, count);
    float s = 0;
    for (std::size_t k = begin; k < end; ++k) s = s + a[k];
    total = total + s;
  }
  return total;
}

}  // namespace verbatim::kernels
