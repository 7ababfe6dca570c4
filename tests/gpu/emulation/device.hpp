#pragma once
// The device that the emulation says it is, and how it fails.

#include <cstddef>
#include <cstdint>

namespace verbatim::emulation {

struct DeviceState {
  int driver_version = 13000, runtime_version = 13000;  ///< 0: there is no driver
  int count = 1;
  int major = 9, minor = 0;
  std::size_t memory_bytes = SIZE_MAX / 2;
  /// After so many more launches every call fails with `lost_error`, until `device()` is made anew.
  std::size_t launches_left = SIZE_MAX;
  int lost_error = 700;
};
/// May be changed between calls of the runtime.
[[nodiscard]] DeviceState& device();

/// The error of a lost device, else 0.
[[nodiscard]] int lost_with();
/// Of the calling thread: what a call that failed has left for cudaGetLastError.
[[nodiscard]] int& last_error();
/// False when the device is lost: the kernel does not run.
[[nodiscard]] bool count_launch();
/// Of memory_bytes.
[[nodiscard]] std::size_t bytes_left();

}  // namespace verbatim::emulation
