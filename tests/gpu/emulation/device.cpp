#include "tests/gpu/emulation/device.hpp"

#include "tests/gpu/emulation/memory.hpp"

#include <algorithm>

namespace verbatim::emulation {

DeviceState& device() {
  static DeviceState state;
  return state;
}

int lost_with() { return device().launches_left == 0 ? device().lost_error : 0; }

int& last_error() {
  thread_local int error = 0;
  return error;
}

bool count_launch() {
  std::size_t& left = device().launches_left;
  if (left == 0) return false;
  if (left != SIZE_MAX) --left;
  return true;
}

std::size_t bytes_left() {
  return device().memory_bytes - std::min(device().memory_bytes, bytes_allocated());
}

}  // namespace verbatim::emulation
