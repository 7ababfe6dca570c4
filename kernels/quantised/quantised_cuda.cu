// A thread an element: correct, and not tuned. What it writes is read once by a product of the other kernels.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rounded.cuh"
#include "kernels/matmul/stored_cuda.cuh"
#include "kernels/quantised/quantised_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

using Byte = std::uint8_t;

__device__ inline float half_at(const Byte* p) {
  return f16(p[0] | static_cast<std::uint32_t>(p[1]) << 8);
}
__device__ inline float whole(int x) { return static_cast<float>(x); }  // small: exact

/// Of 32 elements in 16 bytes.
__device__ inline int nibble_of_32(const Byte* n, unsigned e) {
  return e < 16 ? n[e] & 15 : n[e - 16] >> 4;
}
__device__ inline int bit_of_32(const Byte* h, unsigned e) { return h[e / 8] >> (e % 8) & 1; }

/// Element e of a block of Q4_K or Q5_K. `high`: the fifth bits, or null.
__device__ inline float k_element(const Byte* b, const Byte* high, const Byte* n, unsigned e) {
  const Byte* s = b + 4;
  const unsigned j = e / 32;
  const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
  const int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
  const int two = n[e / 64 * 32 + e % 32];
  int value = e % 64 < 32 ? two & 15 : two >> 4;
  if (high != nullptr) value += 16 * (high[e % 32] >> j & 1);
  const float scaled = rn::mul(rn::mul(half_at(b), whole(scale)), whole(value));
  return rn::sub(scaled, rn::mul(half_at(b + 2), whole(min)));
}

__device__ inline float q6_k_element(const Byte* b, unsigned e) {
  const unsigned side = e / 128, within = e % 128;
  const int two = b[64 * side + within % 64];
  const int low = within < 64 ? two & 15 : two >> 4;
  const int high = b[128 + 32 * side + within % 32] >> (within / 32 * 2) & 3;
  const int scale = static_cast<std::int8_t>(b[192 + e / 16]);
  return rn::mul(rn::mul(half_at(b + 208), whole(scale)), whole(low + 16 * high - 32));
}

/// How rows of `cols` elements are stored: computed on the host.
struct Format {
  Format(Dtype type, std::size_t cols)
      : dtype(type), layout(block_layout(type)), row(row_bytes(type, cols)) {}
  Dtype dtype;
  BlockLayout layout;
  std::size_t row;  // bytes
};

/// Element (n, k) of rows in this format.
__device__ inline float quantised_element(const Byte* rows, const Format& format, std::size_t n,
                                          std::size_t k) {
  const Byte* b = rows + n * format.row + k / format.layout.elements * format.layout.bytes;
  const auto e = static_cast<unsigned>(k % format.layout.elements);
  switch (format.dtype) {
    case Dtype::q8_0:
      return rn::mul(whole(static_cast<std::int8_t>(b[2 + e])), half_at(b));
    case Dtype::q4_0:
      return rn::mul(whole(nibble_of_32(b + 2, e) - 8), half_at(b));
    case Dtype::q4_1:
      return rn::add(rn::mul(whole(nibble_of_32(b + 4, e)), half_at(b)), half_at(b + 2));
    case Dtype::q5_0:
      return rn::mul(whole(nibble_of_32(b + 6, e) + 16 * bit_of_32(b + 2, e) - 16), half_at(b));
    case Dtype::q5_1:
      return rn::add(rn::mul(whole(nibble_of_32(b + 8, e) + 16 * bit_of_32(b + 4, e)), half_at(b)),
                     half_at(b + 2));
    case Dtype::q4_k:
      return k_element(b, nullptr, b + 16, e);
    case Dtype::q5_k:
      return k_element(b, b + 16, b + 48, e);
    case Dtype::q6_k:
      return q6_k_element(b, e);
    default:
      return 0;  // floats are read as they are
  }
}

struct PanelElement {
  DequantiseArgs a;
  Format format;
  std::size_t each;  // floats of an expert

  /// i = ((expert * panels + panel) * cols + k) * 16 + row of the panel.
  __device__ void operator()(std::size_t i) const {
    const std::size_t expert = i / each,
                      n = i % each / (a.cols * kPanelRows) * kPanelRows + i % kPanelRows;
    if (a.panels != nullptr && i % each == 0) a.panels[expert] = a.out + i;
    if (a.first != nullptr && a.first[expert] == a.first[expert + 1]) return;
    if (n >= a.row_count) {
      a.out[i] = 0;
      return;
    }
    const Byte* matrix = a.rows != nullptr ? a.rows : a.experts[expert];
    a.out[i] = quantised_element(matrix, format, a.first_row + n, i % each / kPanelRows % a.cols);
  }
};

struct GatheredElement {
  const Byte* rows;
  Format format;
  std::size_t cols;
  const std::int32_t* ids;
  float scale;
  float* out;

  /// i = row * cols + column.
  __device__ void operator()(std::size_t i) const {
    const auto n = static_cast<std::size_t>(ids[i / cols]);
    const float e = quantised_element(rows, format, n, i % cols);
    out[i] = scale == 1 ? e : rn::mul(e, scale);
  }
};

std::size_t floats_of_one(const DequantiseArgs& a) {
  return pieces(a.row_count, kPanelRows) * kPanelRows * a.cols;
}

}  // namespace

std::size_t dequantised_floats(const DequantiseArgs& args) {
  return args.expert_count * floats_of_one(args);
}

void dequantise_panels(const DequantiseArgs& args, cudaStream_t stream) {
  for_each(dequantised_floats(args),
           PanelElement{args, Format(args.dtype, args.cols), floats_of_one(args)}, stream);
}

void gather_quantised_rows(const std::uint8_t* rows, Dtype dtype, std::size_t cols,
                           const std::int32_t* ids, std::size_t count, float scale, float* out,
                           cudaStream_t stream) {
  for_each(count * cols, GatheredElement{rows, Format(dtype, cols), cols, ids, scale, out}, stream);
}

}  // namespace verbatim::kernels::cuda
