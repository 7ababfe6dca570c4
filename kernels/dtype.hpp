#pragma once
// Stored element types of weights, and their exact conversion to f32.

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels {

/// The float types, and the quantised blocks of GGUF files (quantised/quantised.hpp).
enum class Dtype { f32, bf16, f16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

/// Consecutive elements of a row that are stored together. A row is a whole number of blocks.
struct BlockLayout {
  std::size_t elements = 1;
  std::size_t bytes = 0;
};

[[nodiscard]] constexpr BlockLayout block_layout(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return {1, 4};
    case Dtype::bf16:
    case Dtype::f16:
      return {1, 2};
    case Dtype::q8_0:
      return {32, 34};
    case Dtype::q4_0:
      return {32, 18};
    case Dtype::q4_1:
      return {32, 20};
    case Dtype::q5_0:
      return {32, 22};
    case Dtype::q5_1:
      return {32, 24};
    case Dtype::q4_k:
      return {256, 144};
    case Dtype::q5_k:
      return {256, 176};
    case Dtype::q6_k:
      return {256, 210};
  }
  return {};
}

[[nodiscard]] constexpr bool is_quantised(Dtype dtype) { return block_layout(dtype).elements > 1; }

/// Bytes of one element of a float type.
[[nodiscard]] constexpr std::size_t element_size(Dtype dtype) { return block_layout(dtype).bytes; }

/// Bytes of `cols` elements, which are a whole number of blocks.
[[nodiscard]] constexpr std::size_t row_bytes(Dtype dtype, std::size_t cols) {
  const BlockLayout layout = block_layout(dtype);
  return cols / layout.elements * layout.bytes;
}

[[nodiscard]] float bf16_to_f32(std::uint16_t bits);
/// Subnormals included; a NaN stays one.
[[nodiscard]] float f16_to_f32(std::uint16_t bits);
/// Round to nearest even; a NaN becomes 0x7fff.
[[nodiscard]] std::uint16_t f32_to_bf16(float value);
/// Round to nearest even; overflow becomes infinity, a NaN 0x7fff.
[[nodiscard]] std::uint16_t f32_to_f16(float value);

/// out[i] = the f32 value of the i-th element at `data`: exact for floats, the formula of its format for a quantised
/// element. `count` is a whole number of blocks. `data` needs no alignment: it may lie in a mapped file.
void to_f32(const void* data, Dtype dtype, std::size_t count, float* out);

}  // namespace verbatim::kernels
