#pragma once
// Causal attention over a paged cache of keys and values, with a result that depends on neither pages nor chunks.

#include "kernels/backend.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

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
/// Writes one position (slot = position % 256). k, v: (kv_heads, head_dim), k already rotated.
void kv_store(const AttentionShape& shape, const KvPage& page, std::size_t slot, const float* k,
              const float* v);

/// One query: rows of one call may belong to different sequences.
struct AttentionRow {
  const float* q = nullptr;  ///< (heads, head_dim), rotated
  float* out = nullptr;      ///< (heads, head_dim)
  std::size_t position = 0;  ///< the query's; its own key and value are already stored
  const KvPage* pages =
      nullptr;  ///< position / 256 + 1 of them; those wholly before the window are not touched
  bool range = false;  ///< set when a maximum is infinite: the request ends with `out_of_range`
};

/// Numerics: section 5 of profile f32-k256/1 (blocks of 256 at absolute positions, merged in ascending order).
/// A row's result depends on its query, the allowed keys and values, and the shape alone.
void attention(Backend backend, const AttentionShape& shape, std::span<AttentionRow> rows,
               ThreadPool* pool = nullptr);

}  // namespace verbatim::kernels
