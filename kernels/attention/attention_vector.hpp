#pragma once
// Attention on vectors: lanes run over keys for the scores, and over the head's elements for the weighted sum. Up to
// four queries that read the same page go together, so that a loaded key or value serves all of them. V is avx2::V or
// avx512::V.

#include "kernels/attention/detail.hpp"
#include "kernels/elementary/elementary_vector.hpp"

#include <cstddef>
#include <limits>

namespace verbatim::kernels::detail {

/// Vectors side by side for `queries` queries: at least 8 chains, within the registers.
template <class V>
constexpr std::size_t side_by_side(std::size_t queries) {
  return queries == 1 ? 8 : (queries == 2 || V::kRegisters == 32) ? 4 : 2;
}

/// Queries [first, first + queries) of a group, over one page.
template <class V, std::size_t queries>
struct AttentionTile {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  // `e` stays uninitialised: scores() writes what is read.
  [[gnu::always_inline]] AttentionTile(const QueryGroup& whole, std::size_t first)
      : group(whole),
        query(whole.queries + first),
        dim(whole.shape->head_dim),
        o(whole.scratch + first * dim),
        o_b(whole.scratch + kQueriesMax * dim) {}

  const QueryGroup& group;
  Query* query;
  std::size_t dim;
  float* o;                              // (queries, dim): the result so far, unnormalised
  float* o_b;                            // (queries, dim): this page's
  alignas(64) float e[queries][kBlock];  // scores, then their exponentials

  /// dot(q, k_j) for `vectors` vectors of slots from j, all queries. Lanes of slots not stored hold anything.
  template <std::size_t vectors>
  [[gnu::always_inline]] void score_step(const float* k, std::size_t j) {
    for (std::size_t begin = 0; begin < dim; begin += kBlock) {
      const std::size_t end = dim - begin < kBlock ? dim : begin + kBlock;
      typename V::F s[queries][vectors];
      for (std::size_t q = 0; q < queries; ++q) {
        for (std::size_t x = 0; x < vectors; ++x) s[q][x] = V::zero();
      }
      for (std::size_t i = begin; i < end; ++i) {
        typename V::F key[vectors];
        for (std::size_t x = 0; x < vectors; ++x)
          key[x] = V::load(k + i * kBlock + j + x * V::kLanes);
        for (std::size_t q = 0; q < queries; ++q) {
          const auto value = V::set1(query[q].q[i]);
          for (std::size_t x = 0; x < vectors; ++x) s[q][x] = V::fma(value, key[x], s[q][x]);
        }
      }
      for (std::size_t q = 0; q < queries; ++q) {
        for (std::size_t x = 0; x < vectors; ++x) {
          float* out = e[q] + j + x * V::kLanes;
          V::store(out, V::add(begin == 0 ? V::zero() : V::load(out), s[q][x]));
        }
      }
    }
  }

  void scores(const float* k, Slots slots) {
    constexpr std::size_t kSide = side_by_side<V>(queries);
    std::size_t j = slots.begin / V::kLanes * V::kLanes;
    for (; j + kSide * V::kLanes <= kBlock && j < slots.end; j += kSide * V::kLanes) {
      score_step<kSide>(k, j);
    }
    for (; j < slots.end; j += V::kLanes) score_step<1>(k, j);
  }

  /// Scale, soft-cap, maximum, exponentials of one query; returns the maximum.
  float exponentials(float* row, Slots slots) {
    const auto scale = V::set1(group.shape->scale);
    const auto cap = V::set1(group.shape->softcap);
    const bool capped = group.shape->softcap != 0;
    const std::size_t count = slots.end - slots.begin;
    float* s = row + slots.begin;
    auto best = V::set1(-kInfinity);
    float m_b = -kInfinity;
    const auto step = [&](typename V::F x) __attribute__((always_inline)) {
      x = V::mul(x, scale);
      return capped ? V::mul(cap, tanh<V>(V::div(x, cap))) : x;
    };
    std::size_t i = 0;
    for (; i + V::kLanes <= count; i += V::kLanes) {
      const auto x = step(V::load(s + i));
      V::store(s + i, x);
      best = V::max(x, best);
    }
    if (i < count) {
      V::store_first(s + i, count - i, step(V::load_first(s + i, count - i)));
      for (; i < count; ++i) m_b = s[i] > m_b ? s[i] : m_b;
    }
    const float lane = V::max_lane(best);
    m_b = lane > m_b ? lane : m_b;
    const auto minus = V::set1(m_b);
    map<V>(
        s, count, s, [&](typename V::F x) __attribute__((always_inline)) {
          return exp<V>(V::sub(x, minus));
        });
    return m_b;
  }

  /// o_b += e_j v_j, and l_b += e_j, for rising j in `slots`, of queries [first, first + count).
  template <std::size_t count, std::size_t vectors, bool with_sum>
  [[gnu::always_inline]] void weighted_step(const float* v, Slots slots, std::size_t first,
                                            std::size_t i, float* l_b) {
    typename V::F s[count][vectors];
    float sum[count];
    for (std::size_t q = 0; q < count; ++q) {
      sum[q] = l_b[first + q];
      for (std::size_t x = 0; x < vectors; ++x) {
        s[q][x] = V::load(o_b + (first + q) * dim + i + x * V::kLanes);
      }
    }
    for (std::size_t j = slots.begin; j < slots.end; ++j) {
      typename V::F value[vectors];
      for (std::size_t x = 0; x < vectors; ++x) value[x] = V::load(v + j * dim + i + x * V::kLanes);
      for (std::size_t q = 0; q < count; ++q) {
        const float weight = e[first + q][j];
        if constexpr (with_sum) sum[q] = sum[q] + weight;
        const auto all = V::set1(weight);
        for (std::size_t x = 0; x < vectors; ++x) s[q][x] = V::fma(all, value[x], s[q][x]);
      }
    }
    for (std::size_t q = 0; q < count; ++q) {
      if constexpr (with_sum) l_b[first + q] = sum[q];
      for (std::size_t x = 0; x < vectors; ++x) {
        V::store(o_b + (first + q) * dim + i + x * V::kLanes, s[q][x]);
      }
    }
  }

  /// The last dim % kLanes elements, and the sums when there are no others.
  template <std::size_t count>
  void weighted_tail(const float* v, Slots slots, std::size_t first, std::size_t i, float* l_b) {
    const std::size_t n = dim - i;
    for (std::size_t q = first; q < first + count; ++q) {
      auto s = V::load_first(o_b + q * dim + i, n);
      for (std::size_t j = slots.begin; j < slots.end; ++j) {
        if (i == 0) l_b[q] = l_b[q] + e[q][j];
        s = V::fma(V::set1(e[q][j]), V::load_first(v + j * dim + i, n), s);
      }
      V::store_first(o_b + q * dim + i, n, s);
    }
  }

  template <std::size_t count>
  void weighted(const float* v, Slots slots, std::size_t first, float* l_b) {
    if (slots.empty()) return;
    constexpr std::size_t kSide = side_by_side<V>(count);
    std::size_t i = 0;
    if (dim >= kSide * V::kLanes) {
      weighted_step<count, kSide, true>(v, slots, first, 0, l_b);
      for (i = kSide * V::kLanes; i + kSide * V::kLanes <= dim; i += kSide * V::kLanes) {
        weighted_step<count, kSide, false>(v, slots, first, i, l_b);
      }
    } else if (dim >= V::kLanes) {
      weighted_step<count, 1, true>(v, slots, first, 0, l_b);
      i = V::kLanes;
    }
    for (; i + V::kLanes <= dim; i += V::kLanes) {
      weighted_step<count, 1, false>(v, slots, first, i, l_b);
    }
    if (i < dim) weighted_tail<count>(v, slots, first, i, l_b);
  }

  void merge(std::size_t q, float m_b, float l_b) {
    Query& own = query[q];
    const float m_new = own.m > m_b ? own.m : m_b;
    const float a = exp_f32(own.m - m_new);
    const float c = exp_f32(m_b - m_new);
    own.l = __builtin_fmaf(own.l, a, l_b * c);
    own.m = m_new;
    if (m_new == kInfinity || m_new == -kInfinity) own.range = true;
    const auto wide_a = V::set1(a), wide_c = V::set1(c);
    float* to = o + q * dim;
    const float* from = o_b + q * dim;
    std::size_t i = 0;
    for (; i + V::kLanes <= dim; i += V::kLanes) {
      V::store(to + i, V::fma(V::load(to + i), wide_a, V::mul(V::load(from + i), wide_c)));
    }
    if (i < dim) {
      const std::size_t n = dim - i;
      V::store_first(
          to + i, n,
          V::fma(V::load_first(to + i, n), wide_a, V::mul(V::load_first(from + i, n), wide_c)));
    }
  }

  void block(std::size_t page) {
    Slots slots[queries];
    Slots all{kBlock, 0}, common{0, kBlock};
    bool every = true;
    for (std::size_t q = 0; q < queries; ++q) {
      slots[q] = allowed_slots(query[q].position, group.shape->window, page);
      if (slots[q].empty()) {
        every = false;
        continue;
      }
      all.begin = slots[q].begin < all.begin ? slots[q].begin : all.begin;
      all.end = slots[q].end > all.end ? slots[q].end : all.end;
      common.begin = slots[q].begin > common.begin ? slots[q].begin : common.begin;
      common.end = slots[q].end < common.end ? slots[q].end : common.end;
    }
    if (all.empty()) return;
    const float* k = group.pages[page].k + group.kv_head * dim * kBlock;  // (dim, 256)
    const float* v = group.pages[page].v + group.kv_head * kBlock * dim;  // (256, dim)
    scores(k, all);

    float m_b[queries], l_b[queries];
    for (std::size_t q = 0; q < queries; ++q) {
      l_b[q] = 0;
      m_b[q] = slots[q].empty() ? 0 : exponentials(e[q], slots[q]);
    }
    for (std::size_t i = 0; i < queries * dim; ++i) o_b[i] = 0;
    // Each query's own order stays: what only it may see before, what all see together, what only it sees after.
    const bool together = every && !common.empty();
    for (std::size_t q = 0; q < queries; ++q) {
      const Slots before = together ? Slots{slots[q].begin, common.begin} : slots[q];
      weighted<1>(v, before, q, l_b);
    }
    if (together) {
      weighted<queries>(v, common, 0, l_b);
      for (std::size_t q = 0; q < queries; ++q) weighted<1>(v, {common.end, slots[q].end}, q, l_b);
    }
    for (std::size_t q = 0; q < queries; ++q) {
      if (!slots[q].empty()) merge(q, m_b[q], l_b[q]);
    }
  }
};

template <class V, std::size_t queries>
[[gnu::noinline]] void attend_page(const QueryGroup& group, std::size_t first, std::size_t page) {
  AttentionTile<V, queries>(group, first).block(page);
}

template <class V>
[[gnu::always_inline]] static inline void attend_tile(const QueryGroup& group, std::size_t first,
                                                      std::size_t page) {
  static_assert(kQueriesTogether == 4);
  switch (group.count - first) {
    case 1:
      return attend_page<V, 1>(group, first, page);
    case 2:
      return attend_page<V, 2>(group, first, page);
    case 3:
      return attend_page<V, 3>(group, first, page);
    default:
      return attend_page<V, 4>(group, first, page);
  }
}

template <class V>
[[gnu::always_inline]] static inline void attention_vector(const QueryGroup& group) {
  const std::size_t dim = group.shape->head_dim;
  std::size_t begin = group.queries[0].position, end = begin;
  for (std::size_t q = 0; q < group.count; ++q) {
    Query& query = group.queries[q];
    query.m = -std::numeric_limits<float>::infinity();
    query.l = 0;
    begin = query.position < begin ? query.position : begin;
    end = query.position > end ? query.position : end;
  }
  for (std::size_t i = 0; i < group.count * dim; ++i) group.scratch[i] = 0;
  const std::size_t window = group.shape->window;
  begin = window != 0 && begin >= window ? begin - window + 1 : 0;
  for (std::size_t page = begin / kBlock; page <= end / kBlock; ++page) {
    for (std::size_t first = 0; first < group.count; first += kQueriesTogether) {
      attend_tile<V>(group, first, page);
    }
  }
  for (std::size_t q = 0; q < group.count; ++q) {
    const Query& query = group.queries[q];
    for (std::size_t i = 0; i < dim; ++i) query.out[i] = group.scratch[q * dim + i] / query.l;
  }
}

}  // namespace verbatim::kernels::detail
