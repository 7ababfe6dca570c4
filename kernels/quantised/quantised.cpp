// One element at a time, as the contract writes it: the text that the vector versions are compared with.

#include "kernels/quantised/quantised.hpp"

#include <cfloat>
#include <cstring>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

using Byte = std::uint8_t;

float half_at(const Byte* p) {
  return f16_to_f32(static_cast<std::uint16_t>(p[0] | (std::uint32_t{p[1]} << 8)));
}

/// Of 32 elements in 16 bytes.
int nibble_of_32(const Byte* n, std::size_t e) { return e < 16 ? n[e] & 15 : n[e - 16] >> 4; }
int bit_of_32(const Byte* h, std::size_t e) { return (h[e / 8] >> (e % 8)) & 1; }

void q8_0(const Byte* b, float* out) {
  const float d = half_at(b);
  for (std::size_t e = 0; e < 32; ++e) {
    out[e] = static_cast<float>(static_cast<std::int8_t>(b[2 + e])) * d;
  }
}

void q4_0(const Byte* b, float* out) {
  const float d = half_at(b);
  for (std::size_t e = 0; e < 32; ++e) {
    out[e] = static_cast<float>(nibble_of_32(b + 2, e) - 8) * d;
  }
}

void q4_1(const Byte* b, float* out) {
  const float d = half_at(b), m = half_at(b + 2);
  for (std::size_t e = 0; e < 32; ++e) {
    out[e] = static_cast<float>(nibble_of_32(b + 4, e)) * d + m;
  }
}

void q5_0(const Byte* b, float* out) {
  const float d = half_at(b);
  for (std::size_t e = 0; e < 32; ++e) {
    out[e] = static_cast<float>(nibble_of_32(b + 6, e) + 16 * bit_of_32(b + 2, e) - 16) * d;
  }
}

void q5_1(const Byte* b, float* out) {
  const float d = half_at(b), m = half_at(b + 2);
  for (std::size_t e = 0; e < 32; ++e) {
    out[e] = static_cast<float>(nibble_of_32(b + 8, e) + 16 * bit_of_32(b + 4, e)) * d + m;
  }
}

/// The 6-bit scale and minimum of 32 elements of a Q4_K or Q5_K block.
struct ScaleAndMin {
  int scale, min;
};
ScaleAndMin scale_and_min(const Byte* s, std::size_t j) {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4)};
}

/// `high`: the fifth bits, or null.
void q4_k_or_q5_k(const Byte* b, const Byte* high, const Byte* n, float* out) {
  const float d = half_at(b), dmin = half_at(b + 2);
  for (std::size_t e = 0; e < 256; ++e) {
    const auto [scale, min] = scale_and_min(b + 4, e / 32);
    const Byte two = n[e / 64 * 32 + e % 32];
    int value = e % 64 < 32 ? two & 15 : two >> 4;
    if (high != nullptr) value += 16 * ((high[e % 32] >> (e / 32)) & 1);
    const float scaled = (d * static_cast<float>(scale)) * static_cast<float>(value);
    out[e] = scaled - dmin * static_cast<float>(min);
  }
}

void q6_k(const Byte* b, float* out) {
  const Byte *n = b, *h = b + 128, *scales = b + 192;
  const float d = half_at(b + 208);
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t side = e / 128, within = e % 128;
    const Byte two = n[64 * side + within % 64];
    const int low = within < 64 ? two & 15 : two >> 4;
    const int high = (h[32 * side + within % 32] >> (within / 32 * 2)) & 3;
    const auto scale = static_cast<float>(static_cast<std::int8_t>(scales[e / 16]));
    out[e] = (d * scale) * static_cast<float>(low + 16 * high - 32);
  }
}

}  // namespace

void dequantise(const void* data, Dtype dtype, std::size_t count, float* out) {
  const BlockLayout layout = block_layout(dtype);
  const auto* b = static_cast<const Byte*>(data);
  for (std::size_t at = 0; at + layout.elements <= count; at += layout.elements) {
    switch (dtype) {
      case Dtype::q8_0:
        q8_0(b, out + at);
        break;
      case Dtype::q4_0:
        q4_0(b, out + at);
        break;
      case Dtype::q4_1:
        q4_1(b, out + at);
        break;
      case Dtype::q5_0:
        q5_0(b, out + at);
        break;
      case Dtype::q5_1:
        q5_1(b, out + at);
        break;
      case Dtype::q4_k:
        q4_k_or_q5_k(b, nullptr, b + 16, out + at);
        break;
      case Dtype::q5_k:
        q4_k_or_q5_k(b, b + 16, b + 48, out + at);
        break;
      case Dtype::q6_k:
        q6_k(b, out + at);
        break;
      case Dtype::f32:
      case Dtype::bf16:
      case Dtype::f16:
        break;  // to_f32() does these itself
    }
    b += layout.bytes;
  }
}

}  // namespace verbatim::kernels
