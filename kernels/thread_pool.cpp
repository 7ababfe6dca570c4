#include "kernels/thread_pool.hpp"

#include "kernels/backend.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace verbatim::kernels {

namespace {

using Body = std::function<void(std::size_t, std::size_t)>;

constexpr int kLooks = 2000;  // some ten microseconds

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

}  // namespace

struct ThreadPool::State {
  // Between two operators lie microseconds, and to wake a sleeping thread takes longer: so who waits looks for a moment
  // before it sleeps. What is to be done is written before `round` and read after it.
  std::size_t tasks = 0;
  const Body* body = nullptr;
  std::atomic<std::uint64_t> round = 0;  // counts run() calls: a worker takes part once in each
  std::atomic<std::size_t> busy = 0;     // workers that have not finished this round
  std::atomic<bool> stop = false;
  std::mutex mutex;  // for sleeping alone
  std::condition_variable work_given, work_done;
  std::vector<std::jthread> workers;

  /// The share of thread `index` of all threads: contiguous, sizes differing by at most one.
  void work(std::size_t index) const {
    const std::size_t all = workers.size() + 1;
    const std::size_t begin = tasks * index / all;
    const std::size_t end = tasks * (index + 1) / all;
    if (begin < end) (*body)(begin, end);
  }

  template <class Ready>
  void wait(std::condition_variable& condition, const Ready& ready) {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return;
      pause();
    }
    std::unique_lock lock(mutex);
    condition.wait(lock, ready);
  }

  /// Makes `change`, which a sleeping thread is waiting for, in such a way that it cannot fall asleep after.
  template <class Change>
  void wake(std::condition_variable& condition, const Change& change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    condition.notify_all();
  }

  void serve(std::size_t index) {
    make_floating_point_exact();
    std::uint64_t seen = 0;
    while (true) {
      wait(work_given, [&] { return stop.load() || round.load() != seen; });
      if (stop.load()) return;
      ++seen;
      work(index);
      if (busy.fetch_sub(1) == 1) wake(work_done, [] {});
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const int wanted = threads > 0 ? threads : usable_processors();
  state_->workers.reserve(static_cast<std::size_t>(wanted - 1));
  for (int i = 1; i < wanted; ++i) {
    state_->workers.emplace_back(
        [state = state_.get(), i] { state->serve(static_cast<std::size_t>(i)); });
  }
}

ThreadPool::~ThreadPool() {
  state_->wake(state_->work_given, [&] { state_->stop = true; });
  for (std::jthread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(std::size_t tasks, const Body& body) {
  State& state = *state_;
  if (state.workers.empty() || tasks < 2) {
    if (tasks > 0) body(0, tasks);
    return;
  }
  state.tasks = tasks;
  state.body = &body;
  state.busy = state.workers.size();
  state.wake(state.work_given, [&] { ++state.round; });
  state.work(0);
  state.wait(state.work_done, [&] { return state.busy.load() == 0; });
}

void run_tasks(ThreadPool* pool, std::size_t tasks, const Body& body) {
  if (pool != nullptr) {
    pool->run(tasks, body);
  } else if (tasks > 0) {
    body(0, tasks);
  }
}

}  // namespace verbatim::kernels
