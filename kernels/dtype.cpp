#include "kernels/dtype.hpp"

#include "kernels/quantised/quantised.hpp"

#include <bit>
#include <cstring>

namespace verbatim::kernels {

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  // Subnormal: fraction * 2^-24, exact.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fff;
  const std::uint32_t to_even = 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>((bits + to_even) >> 16);
}

std::uint16_t f32_to_f16(float value) {
  if (value != value) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // 65520 is the tie between the largest f16 and what would be the next: it goes to infinity.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves multiples of 2^-24 as the last bits of the sum, rounded to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t to_even = 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((magnitude + to_even - (112u << 23)) >> 13));
}

void to_f32(const void* data, Dtype dtype, std::size_t count, float* out) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (dtype == Dtype::f32) {
    if (count > 0) std::memcpy(out, data, count * sizeof(float));
    return;
  }
  if (is_quantised(dtype)) return dequantise(data, dtype, count, out);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, bytes + 2 * i, 2);
    out[i] = dtype == Dtype::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
  }
}

}  // namespace verbatim::kernels
