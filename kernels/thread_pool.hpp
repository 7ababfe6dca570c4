#pragma once
// Worker threads for the operators: a fixed split over independent outputs, so that no result depends on them.

#include <cstddef>
#include <functional>
#include <memory>

namespace verbatim::kernels {

/// `threads` - 1 workers and the caller. One caller at a time. Operators take a pointer; null means the caller alone.
class ThreadPool {
 public:
  /// 0: one for each processor that this process may use.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const;

  /// Cuts 0..tasks-1 into at most threads() contiguous ranges and calls body(begin, end) for each, one a thread; returns
  /// when all have. `body` must write only what belongs to its own tasks, and must not throw or call run().
  void run(std::size_t tasks, const std::function<void(std::size_t begin, std::size_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// pool->run(), or body(0, tasks) when there is no pool.
void run_tasks(ThreadPool* pool, std::size_t tasks,
               const std::function<void(std::size_t begin, std::size_t end)>& body);

}  // namespace verbatim::kernels
