#pragma once
// Causal attention over a paged cache of keys and values, with a result that depends on neither pages nor chunks.

#include "kernels/attention/shape.hpp"
#include "kernels/backend.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::kernels {

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
