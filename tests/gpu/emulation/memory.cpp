#include "tests/gpu/emulation/memory.hpp"

#include "tests/gpu/emulation/block.hpp"
#include "tests/gpu/emulation/schedule.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace verbatim::emulation {

namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::byte kSlack{0xa5};

struct Allocation {
  std::byte* mapping;  // guard, pages, guard
  std::size_t mapped;
  std::size_t bytes;  // asked for
  std::byte* pages;
  std::size_t page_bytes;
};

/// By address of the first byte.
std::map<std::uintptr_t, Allocation>& allocations() {
  static auto& all = *new std::map<std::uintptr_t, Allocation>;
  return all;
}

// Blocks of keys and values may end on any thread.
std::recursive_mutex guard;
bool hidden = false;

void set_access(const Allocation& a, int protection) {
  if (mprotect(a.pages, a.page_bytes, protection) != 0) throw std::bad_alloc();
}
void set_access_to_all(int protection) {
  for (const auto& [start, a] : allocations()) set_access(a, protection);
}

void check(const std::byte* begin, const std::byte* end, std::uintptr_t start,
           const Allocation& a) {
  for (const std::byte* p = begin; p < end; ++p) {
    if (*p != kSlack) {
      throw Fault(
          "something wrote " +
          std::to_string(reinterpret_cast<std::intptr_t>(p) - static_cast<std::intptr_t>(start)) +
          " bytes from the start of an allocation of " + std::to_string(a.bytes));
    }
  }
}

void check(std::uintptr_t start, const Allocation& a) {
  const auto* first = reinterpret_cast<const std::byte*>(start);
  check(a.pages, first, start, a);
  check(first + a.bytes, a.pages + a.page_bytes, start, a);
}

/// The process ends: after a wild access nothing is worth going on for.
void on_segmentation_fault(int, siginfo_t* info, void*) {
  char line[300];
  int length = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const auto& [start, a] : allocations()) {
    const auto map = reinterpret_cast<std::uintptr_t>(a.mapping);
    if (address < map || address >= map + a.mapped) continue;
    const bool before = address < start;
    length = std::snprintf(
        line, sizeof line,
        "emulation: block (%u,%u,%u) thread (%u,%u,%u) touched %zu bytes %s an allocation of %zu\n",
        blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z,
        before ? start - address : address - start - a.bytes,
        before ? "before the start of" : "past the end of", a.bytes);
    break;
  }
  if (length == 0) {
    length = std::snprintf(
        line, sizeof line,
        "emulation: block (%u,%u,%u) thread (%u,%u,%u) touched %p, which is no allocation\n",
        blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, info->si_addr);
  }
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  std::_Exit(1);
}

void install_handler() {
  static std::byte stack[64 << 10];
  static bool installed = false;
  if (std::exchange(installed, true)) return;
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void* allocate(std::size_t bytes) {
  const std::lock_guard lock(guard);
  install_handler();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const Schedule& schedule = schedule_in_use();
  Allocation a{};
  a.bytes = bytes;
  a.page_bytes = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  a.mapped = a.page_bytes + 2 * page;
  void* mapping = mmap(nullptr, a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  a.mapping = static_cast<std::byte*>(mapping);
  a.pages = a.mapping + page;
  if (mprotect(a.pages, a.page_bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::memset(a.pages, static_cast<int>(kSlack), a.page_bytes);
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* start = a.pages + (schedule.flush_right ? a.page_bytes - rounded : 0);
  for (std::size_t i = 0; i < bytes; ++i)
    start[i] = static_cast<std::byte>(schedule.poison >> (8 * (i % 4)));
  allocations()[reinterpret_cast<std::uintptr_t>(start)] = a;
  if (hidden) set_access(a, PROT_NONE);
  return start;
}

void release(void* p) {
  if (p == nullptr) return;
  const std::lock_guard lock(guard);
  const auto found = allocations().find(reinterpret_cast<std::uintptr_t>(p));
  if (found == allocations().end()) throw Fault("cudaFree of what is no allocation");
  const Allocation a = found->second;
  if (hidden) set_access(a, PROT_READ | PROT_WRITE);
  check(found->first, a);
  allocations().erase(found);
  munmap(a.mapping, a.mapped);
}

void check_slack() {
  const std::lock_guard lock(guard);
  for (const auto& [start, a] : allocations()) check(start, a);
}

std::size_t bytes_at(const void* p) {
  const std::lock_guard lock(guard);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto found = allocations().upper_bound(address);
  if (found == allocations().begin()) return 0;
  --found;
  const std::uintptr_t end = found->first + found->second.bytes;
  return address < end ? end - address : 0;
}

std::size_t bytes_allocated() {
  const std::lock_guard lock(guard);
  std::size_t bytes = 0;
  for (const auto& [start, a] : allocations()) bytes += a.bytes;
  return bytes;
}

void hide_from_host(bool hide) {
  const std::lock_guard lock(guard);
  hidden = hide;
  set_access_to_all(hidden ? PROT_NONE : PROT_READ | PROT_WRITE);
}

KernelsMayTouchMemory::KernelsMayTouchMemory() {
  guard.lock();
  if (hidden) set_access_to_all(PROT_READ | PROT_WRITE);
}

KernelsMayTouchMemory::~KernelsMayTouchMemory() {
  if (hidden) set_access_to_all(PROT_NONE);
  guard.unlock();
}

}  // namespace verbatim::emulation
