#pragma once
// What mma.cpp hands to one backend: some panels of the weights, all rows of x.

#include "kernels/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::detail {

struct MmaRange {
  const std::uint16_t* weights;  // packed (PackedWeights), from panel 0
  Dtype dtype;
  std::size_t rows, cols;  // N, K
  std::size_t begin, end;  // panels
  // The rows of x, rounded to the weights' type: (m, depth) each, depth the next multiple of 16 after K, filled up with
  // zeros.
  const std::uint16_t* x;
  const float* values;         // their f32 values; null for the scalar form
  const float* powers;         // power_of() these; null for the scalar form
  const std::uint8_t* finite;  // (m): 1 when all of a row is
  std::size_t m, depth;
  const float* bias;  // (rows) or null
  float* y;
  std::size_t y_stride;
};

/// The instruction for one output of `panel` and `row`, its products `step` * 16 and up: what the vector forms call where
/// their short cut does not hold.
[[nodiscard]] float mma_lane(const MmaRange& range, std::size_t row, std::size_t panel,
                             std::size_t lane, std::size_t step, float c);

void mma_scalar(const MmaRange& range);
void mma_avx2(const MmaRange& range);
void mma_avx512(const MmaRange& range);

}  // namespace verbatim::kernels::detail
