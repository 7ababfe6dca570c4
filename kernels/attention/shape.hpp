#pragma once
// The shape of an attention layer, and the pages that hold its keys and values. See block.hpp for why this stands alone.

#include "kernels/block.hpp"

#include <cstddef>

namespace verbatim::kernels {

struct AttentionShape {
  std::size_t heads = 0;     ///< of queries; a multiple of kv_heads
  std::size_t kv_heads = 0;  ///< query head h reads kv head h / (heads / kv_heads)
  std::size_t head_dim = 0;
  float scale = 0;         ///< f32 of head_dim^-0.5 in f64, or as configured
  float softcap = 0;       ///< 0: none
  std::size_t window = 0;  ///< 0: none; else keys j with position - window < j <= position
};

/// Keys and values of 256 consecutive positions of one layer: page b of a sequence holds positions 256b to 256b+255.
/// Sequences share pages by holding the same pointers (a common prefix of whole pages).
///   k  (kv_heads, head_dim, 256): transposed, so that vector lanes run over keys
///   v  (kv_heads, 256, head_dim)
/// Both 64-byte aligned, kv_page_floats() long, and need no initialisation: only stored positions are used.
struct KvPage {
  float* k = nullptr;
  float* v = nullptr;
};
/// Length of `k`, and of `v`.
[[nodiscard]] constexpr std::size_t kv_page_floats(std::size_t kv_heads, std::size_t head_dim) {
  return kv_heads * head_dim * kBlock;
}

}  // namespace verbatim::kernels
