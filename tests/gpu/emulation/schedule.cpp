#include "tests/gpu/emulation/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace verbatim::emulation {

namespace {

Schedule in_use = kSchedules[0];

std::uint64_t next(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void use(const Schedule& schedule) { in_use = schedule; }
const Schedule& schedule_in_use() { return in_use; }

std::vector<std::uint32_t> order_of(std::size_t count, std::uint64_t round) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (in_use.order == Order::backward) std::reverse(order.begin(), order.end());
  if (in_use.order == Order::shuffled) {
    std::uint64_t state = in_use.seed * 0x2545f4914f6cdd1du + round;
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[next(state) % i]);
  }
  return order;
}

}  // namespace verbatim::emulation
