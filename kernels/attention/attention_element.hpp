#pragma once
// Attention as the GPU computes it, in four steps: a score for each key; maximum, exponentials and sum of each page; the
// weighted sum of each page, one element at a time; the merge of the pages in rising order.

#include "kernels/cuda/arguments.hpp"
#include "kernels/cuda/shared_text.hpp"
#include "kernels/elementary/elementary_element.hpp"

namespace verbatim::kernels::element {

/// One query (row, head) and one page, with its share of the scratch memory.
struct QueryPage {
  const cuda::AttentionRow* row;
  std::size_t head, kv_head, page;
  std::size_t begin, end;  // allowed slots
  float* e;                // (256) scores, then exponentials
  float* stats;            // m_b, l_b
  float* o;                // (head_dim)
};

/// i = (row * heads + head) * pages_max + page.
VERBATIM_SHARED QueryPage query_page(const cuda::AttentionArgs& a, std::size_t i) {
  QueryPage p{};
  p.page = i % a.pages_max;
  const std::size_t query = i / a.pages_max;
  p.head = query % a.heads;
  p.kv_head = p.head / (a.heads / a.kv_heads);
  p.row = a.rows + query / a.heads;
  const std::size_t position = p.row->position, base = p.page * 256;
  const std::size_t first = a.window != 0 && position >= a.window ? position - a.window + 1 : 0;
  p.begin = first > base ? first - base : 0;
  p.end = position < base ? 0 : position - base + 1;
  p.end = p.end < 256 ? p.end : 256;
  p.e = a.scratch + i * (256 + 2 + a.head_dim);
  p.stats = p.e + 256;
  p.o = p.stats + 2;
  return p;
}

struct AttentionScore {
  cuda::AttentionArgs a;

  /// i = query page * 256 + slot.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const QueryPage p = query_page(a, i / 256);
    const std::size_t slot = i % 256;
    if (slot < p.begin || slot >= p.end) return;
    const float* q = p.row->q + p.head * a.head_dim;
    const float* k = p.row->pages[p.page].k + p.kv_head * a.head_dim * 256 + slot;
    float t = 0;
    for (std::size_t block = 0; block < a.head_dim; block += 256) {
      const std::size_t end = a.head_dim - block < 256 ? a.head_dim : block + 256;
      float s = 0;
      for (std::size_t d = block; d < end; ++d) s = rn::fma(q[d], k[d * 256], s);
      t = rn::add(t, s);
    }
    t = rn::mul(t, a.scale);
    p.e[slot] = a.softcap != 0 ? softcap(t, a.softcap) : t;
  }
};

struct AttentionPage {
  cuda::AttentionArgs a;

  /// i = query page.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const QueryPage p = query_page(a, i);
    float m = -f32_of(0x7f800000u);
    for (std::size_t j = p.begin; j < p.end; ++j) m = p.e[j] > m ? p.e[j] : m;
    float l = 0;
    for (std::size_t j = p.begin; j < p.end; ++j) {
      p.e[j] = exp(rn::sub(p.e[j], m));
      l = rn::add(l, p.e[j]);
    }
    p.stats[0] = m;
    p.stats[1] = l;
  }
};

struct AttentionValue {
  cuda::AttentionArgs a;

  /// i = query page * head_dim + element.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const QueryPage p = query_page(a, i / a.head_dim);
    if (p.begin >= p.end) return;
    const std::size_t d = i % a.head_dim;
    const float* v = p.row->pages[p.page].v + p.kv_head * 256 * a.head_dim + d;
    float o = 0;
    for (std::size_t j = p.begin; j < p.end; ++j) o = rn::fma(p.e[j], v[j * a.head_dim], o);
    p.o[d] = o;
  }
};

struct AttentionMerge {
  cuda::AttentionArgs a;

  /// i = (row * heads + head) * head_dim + element.
  VERBATIM_MEMBER void operator()(std::size_t i) const {
    const std::size_t query = i / a.head_dim, d = i % a.head_dim;
    const float infinity = f32_of(0x7f800000u);
    float m = -infinity, l = 0, o = 0;
    bool range = false;
    for (std::size_t page = 0; page < a.pages_max; ++page) {
      const QueryPage p = query_page(a, query * a.pages_max + page);
      if (p.begin >= p.end) continue;
      const float m_new = m > p.stats[0] ? m : p.stats[0];
      const float keep = exp(rn::sub(m, m_new)), take = exp(rn::sub(p.stats[0], m_new));
      l = rn::fma(l, keep, rn::mul(p.stats[1], take));
      o = rn::fma(o, keep, rn::mul(p.o[d], take));
      m = m_new;
      range = range || m == infinity || m == -infinity;
    }
    const std::size_t row = query / a.heads;
    a.rows[row].out[query % a.heads * a.head_dim + d] = rn::div(o, l);
    if (range && d == 0) a.range[row] = true;  // every writer writes the same
  }
};

}  // namespace verbatim::kernels::element
