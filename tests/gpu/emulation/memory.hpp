#pragma once
// Device memory without a GPU: each allocation lies against a page that cannot be touched, holds poison until it is written,
// and has its slack checked.

#include <cstddef>

namespace verbatim::emulation {

/// As cudaMalloc, aligned to 16 bytes only, with the schedule in use deciding about poison and on which side the guard is.
/// An access outside ends the process, with a line that says by how much it missed.
void* allocate(std::size_t bytes);
/// Throws Fault when something wrote into the slack around it, or when it is no allocation.
void release(void* p);
/// All allocations: throws Fault.
void check_slack();
/// The largest number of bytes at `p` that lie in one allocation; 0 when it is in none.
std::size_t bytes_at(const void* p);

/// Of all allocations.
std::size_t bytes_allocated();

/// From here on the host cannot touch device memory but through copies, as on a GPU: an access ends the process.
void hide_from_host(bool hidden);
/// While it lives a kernel runs, or a copy.
class KernelsMayTouchMemory {
 public:
  KernelsMayTouchMemory();
  ~KernelsMayTouchMemory();
  KernelsMayTouchMemory(const KernelsMayTouchMemory&) = delete;
};

}  // namespace verbatim::emulation
