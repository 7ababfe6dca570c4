#pragma once
// In which order the emulation runs what CUDA leaves unordered, and what memory holds before it is written.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim::emulation {

enum class Order { forward, backward, shuffled };

/// Everything a correct kernel's result does not depend on.
struct Schedule {
  Order order = Order::forward;  ///< of the blocks of a grid, and of the threads between two waits
  std::uint64_t seed = 0;        ///< of `shuffled`
  std::uint32_t poison = 0x7fa12345;  ///< fresh memory, in words: a NaN, a finite value, or others
  bool flush_right = true;  ///< an allocation ends at its guard page; else it begins after one
};

inline constexpr std::array<Schedule, 4> kSchedules = {{{Order::forward, 0, 0x7fa12345, true},
                                                        {Order::backward, 0, 0xff7fffff, false},
                                                        {Order::shuffled, 1, 0x3f800001, true},
                                                        {Order::shuffled, 2, 0x7fffffff, false}}};

/// For launches and allocations from here on.
void use(const Schedule& schedule);
[[nodiscard]] const Schedule& schedule_in_use();

/// 0..count-1 in the order of the schedule in use; `round` makes shuffles differ.
[[nodiscard]] std::vector<std::uint32_t> order_of(std::size_t count, std::uint64_t round);

}  // namespace verbatim::emulation
