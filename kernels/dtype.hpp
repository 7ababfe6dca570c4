#pragma once
// Stored element types of weights, and their exact conversion to f32.

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels {

enum class Dtype { f32, bf16, f16 };

[[nodiscard]] constexpr std::size_t element_size(Dtype dtype) {
  return dtype == Dtype::f32 ? 4 : 2;
}

[[nodiscard]] float bf16_to_f32(std::uint16_t bits);
/// Subnormals included; a NaN stays one.
[[nodiscard]] float f16_to_f32(std::uint16_t bits);
/// Round to nearest even; a NaN becomes 0x7fff.
[[nodiscard]] std::uint16_t f32_to_bf16(float value);
/// Round to nearest even; overflow becomes infinity, a NaN 0x7fff.
[[nodiscard]] std::uint16_t f32_to_f16(float value);

/// out[i] = f32 of the i-th element at `data`, exact. `data` needs no alignment: it may lie in a mapped file.
void to_f32(const void* data, Dtype dtype, std::size_t count, float* out);

}  // namespace verbatim::kernels
