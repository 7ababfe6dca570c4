#include "tests/gpu/emulation/block.hpp"

#include "tests/gpu/emulation/schedule.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace verbatim::emulation {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr unsigned kWarp = 32;

enum class State { ready, at_barrier, at_warp, returned };

/// Thrown into threads that are given up after a fault.
struct Cancelled {};

std::string text(std::source_location where) {
  const std::string path = where.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line());
}

Barrier barrier_at(std::source_location where) {
  const std::string path = where.file_name();
  return {path.substr(path.rfind('/') + 1), where.line(), where.column()};
}

bool same(std::source_location a, std::source_location b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

struct Thread {
  boost::context::fiber context;  // the thread's, while it waits
  boost::context::fiber back;     // the scheduler's, while the thread runs
  boost::context::stack_context stack;
  State state = State::returned;
  std::source_location where;                   // it waits
  std::array<std::uint64_t, kWarp> received{};  // by the last warp operation
  void* fake_stack = nullptr;                   // AddressSanitizer's
};

/// A warp operation that some lanes have reached.
struct Exchange {
  unsigned mask = 0, arrived = 0;
  const char* what = "";
  std::source_location where;
  std::array<std::uint64_t, kWarp> values{};
};

struct Warp {
  std::vector<Exchange> exchanges;
  std::uint32_t epoch = 0;
};

/// Runs one block at a time; keeps its fibers for the next.
class Scheduler {
 public:
  void run_grid(dim3 grid, dim3 block, const std::function<void()>& body) {
    check_sizes(grid, block);
    body_ = &body;
    gridDim = grid;
    blockDim = block;
    const auto size = std::size_t{block.x} * block.y * block.z;
    while (threads_.size() < size) add_thread();
    const auto blocks = order_of(std::size_t{grid.x} * grid.y * grid.z, ++round_);
    for (const std::uint32_t i : blocks) {
      blockIdx = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
      run_block(size);
    }
  }

  void wait_at_barrier(std::source_location where) {
    const Barrier barrier = barrier_at(where);
    reached_.insert(barrier);
    if (barrier != left_out_) wait(State::at_barrier, where);
  }
  std::vector<Barrier> take_reached() {
    const std::set<Barrier> taken = std::exchange(reached_, {});
    return {taken.begin(), taken.end()};
  }
  void leave_out(const Barrier& barrier) { left_out_ = barrier; }

  const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const char* what,
                                std::source_location where) {
    const unsigned lane = current_ % kWarp, first = current_ - lane;
    Warp& warp = warps_[current_ / kWarp];
    if ((mask >> lane & 1) == 0) {
      fault(std::string(what) + " with a mask that leaves out the caller, lane " +
                std::to_string(lane),
            where);
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((mask >> i & 1) != 0 &&
          (first + i >= size_ || threads_[first + i]->state == State::returned)) {
        fault(std::string(what) + " names lane " + std::to_string(i) + ", which " +
                  (first + i >= size_ ? "is not in the block" : "has returned"),
              where);
      }
    }
    const std::size_t at = join(warp, mask, what, where);
    Exchange& joined = warp.exchanges[at];
    joined.arrived |= 1u << lane;
    joined.values[lane] = value;
    if (joined.arrived != mask) {
      wait(State::at_warp, where);
      return threads_[current_]->received.data();
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((mask >> i & 1) == 0) continue;
      threads_[first + i]->received = joined.values;
      threads_[first + i]->state = State::ready;
    }
    warp.exchanges.erase(warp.exchanges.begin() + static_cast<std::ptrdiff_t>(at));
    return threads_[current_]->received.data();
  }

  void next_warp_epoch(std::uint32_t epoch) { warps_[current_ / kWarp].epoch = epoch; }

  [[noreturn]] void fault(const std::string& what, std::source_location where) {
    throw Fault("block " + text(blockIdx) + " thread " + text(threadIdx) + " at " + text(where) +
                ": " + what);
  }

  [[nodiscard]] Standing standing() const {
    return {current_, epoch_, warps_[current_ / kWarp].epoch};
  }
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  [[nodiscard]] unsigned lane() const { return current_ % kWarp; }

 private:
  static void check_sizes(dim3 grid, dim3 block) {
    const auto threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 ||
        grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
      throw Fault("a launch of a grid or block that CUDA refuses");
    }
  }

  void add_thread() {
    auto thread = std::make_unique<Thread>();
    boost::context::protected_fixedsize_stack stacks(kStackBytes);
    thread->stack = stacks.allocate();
    thread->context = boost::context::fiber(
        std::allocator_arg,
        boost::context::preallocated(thread->stack.sp, thread->stack.size, thread->stack), stacks,
        [this, self = thread.get()](boost::context::fiber&& back) {
          self->back = std::move(back);
          arrived_from_scheduler(nullptr);
          for (;;) {
            run_thread(*self);
            suspend(*self);
          }
          return std::move(self->back);
        });
    threads_.push_back(std::move(thread));
  }

  void run_thread(Thread& self) {
    try {
      (*body_)();
    } catch (const Fault& found) {
      fault_ = found.what();
    } catch (const Cancelled&) {
    }
    self.state = State::returned;
  }

  void run_block(std::size_t size) {
    size_ = size;
    ++serial_;
    epoch_ = 0;
    warps_.assign((size + kWarp - 1) / kWarp, {});
    for (std::size_t i = 0; i < size; ++i) threads_[i]->state = State::ready;
    for (;;) {
      std::size_t ran = 0;
      for (const std::uint32_t i : order_of(size, ++round_)) {
        if (threads_[i]->state != State::ready) continue;
        ++ran;
        resume(i);
        if (!fault_.empty()) give_up();
      }
      if (ran == 0 && !release_barrier()) return;
    }
  }

  /// False when every thread has returned.
  bool release_barrier() {
    const Thread* waiting = nullptr;
    std::size_t returned = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const Thread& thread = *threads_[i];
      if (thread.state == State::at_warp) {
        give_up("thread " + std::to_string(i) + " waits at " + text(thread.where) +
                " for a lane of its warp that does not come");
      }
      if (thread.state == State::returned) {
        ++returned;
      } else if (waiting == nullptr) {
        waiting = &thread;
      } else if (!same(waiting->where, thread.where)) {
        give_up("threads wait at different barriers: " + text(waiting->where) + " and " +
                text(thread.where));
      }
    }
    if (waiting == nullptr) return false;
    if (returned > 0) {
      give_up(std::to_string(returned) + " threads have returned, others wait at the barrier at " +
              text(waiting->where));
    }
    ++epoch_;
    for (std::size_t i = 0; i < size_; ++i) threads_[i]->state = State::ready;
    return true;
  }

  /// Ends all threads of the block and reports.
  [[noreturn]] void give_up(const std::string& what) {
    fault_ = "block " + text(blockIdx) + ": " + what;
    give_up();
  }
  [[noreturn]] void give_up() {
    cancel_ = true;
    for (std::size_t i = 0; i < size_; ++i) {
      const State state = threads_[i]->state;
      if (state == State::at_barrier || state == State::at_warp || started(*threads_[i])) resume(i);
      threads_[i]->state = State::returned;
    }
    cancel_ = false;
    throw Fault(std::exchange(fault_, {}));
  }
  /// A ready thread that waited before still has its frames.
  static bool started(const Thread& thread) {
    return thread.state == State::ready && thread.where.line() != 0;
  }

  std::size_t join(Warp& warp, unsigned mask, const char* what, std::source_location where) {
    for (std::size_t i = 0; i < warp.exchanges.size(); ++i) {
      const Exchange& other = warp.exchanges[i];
      if ((other.mask & mask) == 0) continue;
      if (other.mask != mask || std::strcmp(other.what, what) != 0 || !same(other.where, where)) {
        fault(std::string(what) + " while other lanes of the warp wait in " + other.what + " at " +
                  text(other.where),
              where);
      }
      return i;
    }
    warp.exchanges.push_back({mask, 0, what, where, {}});
    return warp.exchanges.size() - 1;
  }

  void wait(State state, std::source_location where) {
    Thread& self = *threads_[current_];
    self.state = state;
    self.where = where;
    suspend(self);
    self.where = {};
    if (cancel_) throw Cancelled{};
  }

  // Into a thread and out of it. AddressSanitizer is told which stack is in use.

  void resume(std::size_t i) {
    Thread& thread = *threads_[i];
    current_ = static_cast<std::uint32_t>(i);
    const auto t = static_cast<unsigned>(i);
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
#ifdef __SANITIZE_ADDRESS__
    void* own = nullptr;
    __sanitizer_start_switch_fiber(
        &own, static_cast<std::byte*>(thread.stack.sp) - thread.stack.size, thread.stack.size);
#endif
    thread.context = std::move(thread.context).resume();
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
  }

  void suspend(Thread& self) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&self.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
    self.back = std::move(self.back).resume();
    arrived_from_scheduler(self.fake_stack);
  }

  void arrived_from_scheduler([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Warp> warps_;
  const std::function<void()>* body_ = nullptr;
  std::size_t size_ = 0;  // threads of the block
  std::uint32_t current_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint64_t serial_ = 0, round_ = 0;
  std::set<Barrier> reached_;
  Barrier left_out_;
  std::string fault_;
  bool cancel_ = false;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

/// Never destroyed: its fibers wait for ever.
Scheduler& scheduler() {
  static Scheduler& only = *new Scheduler;
  return only;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  scheduler().run_grid(grid, block, thread);
}
std::vector<Barrier> take_barriers_reached() { return scheduler().take_reached(); }
void leave_out(const Barrier& barrier) { scheduler().leave_out(barrier); }
void barrier(std::source_location where) { scheduler().wait_at_barrier(where); }
void warp_barrier(unsigned mask, std::source_location where) {
  if (mask != 0xffffffffu) fault("__syncwarp of a part of the warp is not emulated", where);
  // Every lane leaves with the same epoch, whichever leaves first.
  const std::uint32_t next = standing().warp_epoch + 1;
  exchange(mask, 0, "__syncwarp", where);
  scheduler().next_warp_epoch(next);
}
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const char* what,
                              std::source_location where) {
  return scheduler().exchange(mask, value, what, where);
}
std::uint64_t exchange_from(unsigned mask, std::uint64_t value, unsigned lane, const char* what,
                            std::source_location where) {
  if ((mask >> lane & 1) == 0) {
    fault(std::string(what) + " reads lane " + std::to_string(lane) + ", which is not in the mask",
          where);
  }
  return exchange(mask, value, what, where)[lane];
}
unsigned lane_index() { return scheduler().lane(); }
void fault(const std::string& what, std::source_location where) { scheduler().fault(what, where); }
Standing standing() { return scheduler().standing(); }
std::uint64_t block_serial() { return scheduler().serial(); }

}  // namespace verbatim::emulation
