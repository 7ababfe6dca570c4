#include "kernels/thread_pool.hpp"

#include "kernels/backend.hpp"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace verbatim::kernels {

namespace {

using Body = std::function<void(std::size_t, std::size_t)>;

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_given, work_done;
  std::uint64_t round = 0;  // counts run() calls: a worker takes part once in each
  std::size_t tasks = 0;
  const Body* body = nullptr;
  std::size_t busy = 0;  // workers that have not finished this round
  bool stop = false;
  std::vector<std::jthread> workers;

  /// The share of thread `index` of all threads: contiguous, sizes differing by at most one.
  void work(std::size_t index, std::size_t task_count, const Body& work_body) const {
    const std::size_t all = workers.size() + 1;
    const std::size_t begin = task_count * index / all;
    const std::size_t end = task_count * (index + 1) / all;
    if (begin < end) work_body(begin, end);
  }

  void serve(std::size_t index) {
    make_floating_point_exact();
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      work_given.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      const std::size_t count = tasks;
      const Body* work_body = body;
      lock.unlock();
      work(index, count, *work_body);
      lock.lock();
      if (--busy == 0) work_done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const int wanted = threads > 0 ? threads : usable_processors();
  // Reserved before any worker starts: they read the vector's size.
  std::unique_lock lock(state_->mutex);
  state_->workers.reserve(static_cast<std::size_t>(wanted - 1));
  for (int i = 1; i < wanted; ++i) {
    state_->workers.emplace_back(
        [state = state_.get(), i] { state->serve(static_cast<std::size_t>(i)); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->work_given.notify_all();
  for (std::jthread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(std::size_t tasks, const Body& body) {
  State& state = *state_;
  if (state.workers.empty() || tasks < 2) {
    if (tasks > 0) body(0, tasks);
    return;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.tasks = tasks;
    state.body = &body;
    state.busy = state.workers.size();
    ++state.round;
  }
  state.work_given.notify_all();
  state.work(0, tasks, body);
  std::unique_lock lock(state.mutex);
  state.work_done.wait(lock, [&] { return state.busy == 0; });
}

void run_tasks(ThreadPool* pool, std::size_t tasks, const Body& body) {
  if (pool != nullptr) {
    pool->run(tasks, body);
  } else if (tasks > 0) {
    body(0, tasks);
  }
}

}  // namespace verbatim::kernels
