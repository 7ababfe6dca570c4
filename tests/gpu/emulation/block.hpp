#pragma once
// A grid of blocks without a GPU: one block after another, each of its threads a fiber that runs until it waits for others.
// What CUDA leaves undefined is a Fault here: a barrier that not all threads reach, a warp operation that names a lane
// which does not come, shared memory that is read before it is written, or by two threads without a barrier between.

#include "tests/gpu/emulation/types.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace verbatim::emulation {

/// The text names block, thread, what it did, and the line of the kernel.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `thread` for every thread of every block, in the order of the schedule in use. Throws Fault. One caller at a time;
/// not from within a kernel.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

/// A barrier of a block, by its line in the kernel.
struct Barrier {
  std::string file;  ///< without folders
  unsigned line = 0, column = 0;
  auto operator<=>(const Barrier&) const = default;
};
/// Those that kernels have reached since the last call.
std::vector<Barrier> take_barriers_reached();
/// Threads go past this barrier as if it were not there, until another is named; none after `{}`. For tests of whether its
/// absence would be noticed.
void leave_out(const Barrier& barrier);

// What kernels call, through cuda_runtime.h.

/// Waits for all threads of the block. They must all come, and to the same line.
void barrier(std::source_location where);
/// Waits for all lanes of the warp.
void warp_barrier(unsigned mask, std::source_location where);
/// Waits for the lanes in `mask`; returns the values they brought, by lane (32).
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const char* what,
                              std::source_location where);
/// The same, for one lane's value, which must be in the mask.
std::uint64_t exchange_from(unsigned mask, std::uint64_t value, unsigned lane, const char* what,
                            std::source_location where);
/// Of the calling thread in its warp.
unsigned lane_index();
/// Ends the launch. From within a kernel only.
[[noreturn]] void fault(const std::string& what, std::source_location where);

// For shared_array.cpp.

/// Where the calling thread stands between barriers: enough to tell whether two accesses are ordered.
struct Standing {
  std::uint32_t thread = 0;
  std::uint32_t epoch = 0;       ///< barriers of the block so far
  std::uint32_t warp_epoch = 0;  ///< barriers of the warp so far
};
Standing standing();
/// Differs for every block that was run.
std::uint64_t block_serial();

}  // namespace verbatim::emulation

/// CUDA's built-in variables, of the fiber that is running.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
