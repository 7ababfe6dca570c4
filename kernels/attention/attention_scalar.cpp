// Attention as section 5 of the profile writes it, one query at a time: the text that the other versions are compared with.

#include "kernels/attention/detail.hpp"
#include "kernels/elementary/elementary.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels::detail {

namespace {

// Inlined into a portable function, where fma is a call of the C library, and into one for processors that have the
// instruction: the same bits, ten times faster.
#define VERBATIM_BODY [[gnu::always_inline]] inline

VERBATIM_BODY float score_body(const float* q, const float* k, std::size_t dim) {
  float total = 0;
  for (std::size_t begin = 0; begin < dim; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, dim);
    float s = 0;
    for (std::size_t i = begin; i < end; ++i) s = __builtin_fmaf(q[i], k[i * kBlock], s);
    total = total + s;
  }
  return total;
}

VERBATIM_BODY void query_body(const QueryGroup& group, Query& query) {
  const AttentionShape& shape = *group.shape;
  const std::size_t dim = shape.head_dim;
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
  float* o = group.scratch;
  float* o_b = group.scratch + dim;
  for (std::size_t i = 0; i < dim; ++i) o[i] = 0;

  for (std::size_t page = 0; page <= query.position / kBlock; ++page) {
    const Slots slots = allowed_slots(query.position, shape.window, page);
    if (slots.empty()) continue;
    const float* k = group.pages[page].k + group.kv_head * dim * kBlock;  // (dim, 256)
    const float* v = group.pages[page].v + group.kv_head * kBlock * dim;  // (256, dim)

    float e[kBlock];
    float m_b = -std::numeric_limits<float>::infinity();
    for (std::size_t j = slots.begin; j < slots.end; ++j) {
      float s = score_body(query.q, k + j, dim) * shape.scale;
      if (shape.softcap != 0) s = shape.softcap * tanh_f32(s / shape.softcap);
      e[j] = s;
      m_b = s > m_b ? s : m_b;
    }
    float l_b = 0;
    for (std::size_t i = 0; i < dim; ++i) o_b[i] = 0;
    for (std::size_t j = slots.begin; j < slots.end; ++j) {
      e[j] = exp_f32(e[j] - m_b);
      l_b = l_b + e[j];
      for (std::size_t i = 0; i < dim; ++i) o_b[i] = __builtin_fmaf(e[j], v[j * dim + i], o_b[i]);
    }

    const float m_new = m > m_b ? m : m_b;
    const float a = exp_f32(m - m_new);
    const float c = exp_f32(m_b - m_new);
    l = __builtin_fmaf(l, a, l_b * c);
    for (std::size_t i = 0; i < dim; ++i) o[i] = __builtin_fmaf(o[i], a, o_b[i] * c);
    m = m_new;
    if (std::isinf(m)) query.range = true;
  }
  for (std::size_t i = 0; i < dim; ++i) query.out[i] = o[i] / l;
}

void query_portable(const QueryGroup& group, Query& query) { query_body(group, query); }
[[gnu::target("fma")]] void query_fma(const QueryGroup& group, Query& query) {
  query_body(group, query);
}

const bool kHasFma = __builtin_cpu_supports("fma");

}  // namespace

void attention_scalar(const QueryGroup& group) {
  for (std::size_t i = 0; i < group.count; ++i) {
    (kHasFma ? query_fma : query_portable)(group, group.queries[i]);
  }
}

void attention_portable(const QueryGroup& group) {
  for (std::size_t i = 0; i < group.count; ++i) query_portable(group, group.queries[i]);
}

}  // namespace verbatim::kernels::detail
