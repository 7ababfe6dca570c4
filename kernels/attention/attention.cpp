#include "kernels/attention/attention.hpp"

#include "kernels/attention/detail.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

namespace verbatim::kernels {

namespace {

using detail::kQueriesMax;
using detail::Query;
using detail::QueryGroup;

/// Queries [first, first + count) of the (row, head of the group) pairs of a run of rows with the same pages.
struct Task {
  std::size_t first_row = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<Task> tasks_of(std::span<const AttentionRow> rows, std::size_t group) {
  std::vector<Task> tasks;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end].pages == rows[begin].pages) ++end;
    const std::size_t queries = (end - begin) * group;
    for (std::size_t at = 0; at < queries; at += kQueriesMax) {
      tasks.push_back({begin, at, std::min(kQueriesMax, queries - at)});
    }
    begin = end;
  }
  return tasks;
}

void run_group(Backend backend, const QueryGroup& group) {
  switch (backend) {
    case Backend::scalar:
      return detail::attention_scalar(group);
    case Backend::avx2:
      return detail::attention_avx2(group);
    case Backend::avx512:
      return detail::attention_avx512(group);
  }
}

}  // namespace

void kv_store(const AttentionShape& shape, const KvPage& page, std::size_t slot, const float* k,
              const float* v) {
  VERBATIM_CHECK(slot < kBlock);
  const std::size_t dim = shape.head_dim;
  for (std::size_t h = 0; h < shape.kv_heads; ++h) {
    float* keys = page.k + h * dim * kBlock + slot;
    for (std::size_t i = 0; i < dim; ++i) keys[i * kBlock] = k[h * dim + i];
    std::copy_n(v + h * dim, dim, page.v + (h * kBlock + slot) * dim);
  }
}

void attention(Backend backend, const AttentionShape& shape, std::span<AttentionRow> rows,
               ThreadPool* pool) {
  VERBATIM_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 && shape.head_dim > 0);
  const std::size_t per_kv_head = shape.heads / shape.kv_heads;
  const std::vector<Task> tasks = tasks_of(rows, per_kv_head);

  run_tasks(pool, tasks.size() * shape.kv_heads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scratch(detail::scratch_floats(shape.head_dim));
    for (std::size_t i = begin; i < end; ++i) {
      const Task& task = tasks[i / shape.kv_heads];
      const std::size_t kv_head = i % shape.kv_heads;
      Query queries[kQueriesMax];
      for (std::size_t j = 0; j < task.count; ++j) {
        const AttentionRow& row = rows[task.first_row + (task.first + j) / per_kv_head];
        const std::size_t head = kv_head * per_kv_head + (task.first + j) % per_kv_head;
        queries[j] = {row.q + head * shape.head_dim, row.out + head * shape.head_dim, row.position,
                      false};
      }
      run_group(backend,
                {&shape, rows[task.first_row].pages, kv_head, queries, task.count, scratch.data()});
      for (std::size_t j = 0; j < task.count; ++j) {
        if (!queries[j].range) continue;
        // Heads of one row may be computed by several threads.
        bool& flag = rows[task.first_row + (task.first + j) / per_kv_head].range;
        std::atomic_ref(flag).store(true, std::memory_order_relaxed);
      }
    }
  });
}

}  // namespace verbatim::kernels
