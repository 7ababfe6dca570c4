#pragma once
// Quantised rows on the GPU: decoded into the f32 panels that the products read, with the values of quantised.hpp. All
// pointers are the device's.

#include "kernels/dtype.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

/// Some rows of a matrix, or the same rows of every expert's.
struct DequantiseArgs {
  Dtype dtype = Dtype::q8_0;
  std::size_t cols = 0;  ///< a whole number of the dtype's blocks
  const std::uint8_t* rows =
      nullptr;  ///< the matrix: rows of row_bytes(dtype, cols), dense; or null:
  const std::uint8_t* const* experts = nullptr;  ///< (expert_count), a matrix each
  std::size_t expert_count = 1;
  /// (expert_count + 1), or null. What an expert without slots (first[e] == first[e + 1]) has in `out` is left as it is.
  const std::uint32_t* first = nullptr;
  std::size_t first_row = 0, row_count = 0;  ///< which of the rows
  float* out = nullptr;  ///< (expert_count, panels, cols, 16): a last panel is filled up with zeros
  const void** panels = nullptr;  ///< (expert_count), out: where each one's begin; or null
};
/// As PackedWeights holds floats.
void dequantise_panels(const DequantiseArgs& args, cudaStream_t stream);
/// Of `out`, in all.
[[nodiscard]] std::size_t dequantised_floats(const DequantiseArgs& args);

/// out[r] = row ids[r] of the matrix, times `scale` (1: as it is). out: (count, cols), dense.
void gather_quantised_rows(const std::uint8_t* rows, Dtype dtype, std::size_t cols,
                           const std::int32_t* ids, std::size_t count, float scale, float* out,
                           cudaStream_t stream);

}  // namespace verbatim::kernels::cuda
