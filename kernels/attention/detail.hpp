#pragma once
// What attention.cpp hands to one backend: queries that read the same keys and values.

#include "kernels/attention/shape.hpp"

#include <cstddef>

namespace verbatim::kernels::detail {

/// Queries whose registers a backend fills together, and those that pass over a page while it is in the cache.
inline constexpr std::size_t kQueriesTogether = 4;
inline constexpr std::size_t kQueriesMax = 64;

struct Query {
  const float* q = nullptr;  // (head_dim)
  float* out = nullptr;      // (head_dim)
  std::size_t position = 0;
  bool range = false;  // set by the backend: a maximum was infinite
  float m = 0, l = 0;  // of the blocks so far: the backend's
};

/// Allowed positions of one page, as slots [begin, end).
struct Slots {
  std::size_t begin = 0, end = 0;
  [[nodiscard, gnu::always_inline]] bool empty() const { return begin >= end; }
};

/// Keys that a query at `position` may see in page `page`.
[[gnu::always_inline]] inline Slots allowed_slots(std::size_t position, std::size_t window,
                                                  std::size_t page) {
  const std::size_t first = window != 0 && position >= window ? position - window + 1 : 0;
  const std::size_t base = page * kBlock;
  const std::size_t begin = first > base ? first - base : 0;
  const std::size_t end = position < base ? 0 : position - base + 1;
  return {begin < kBlock ? begin : kBlock, end < kBlock ? end : kBlock};
}

struct QueryGroup {
  const AttentionShape* shape;
  const KvPage* pages;
  std::size_t kv_head;
  Query* queries;
  std::size_t count;  // 1 to kQueriesMax
  float* scratch;     // scratch_floats()
};
[[nodiscard]] constexpr std::size_t scratch_floats(std::size_t head_dim) {
  return (kQueriesMax + kQueriesTogether) * head_dim;
}

void attention_scalar(const QueryGroup& group);
/// What attention_scalar is on a processor without FMA; tests run it everywhere.
void attention_portable(const QueryGroup& group);
void attention_avx2(const QueryGroup& group);
void attention_avx512(const QueryGroup& group);

}  // namespace verbatim::kernels::detail
