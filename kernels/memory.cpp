#include "kernels/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace verbatim::kernels {

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;

}  // namespace

AlignedMemory::AlignedMemory(std::size_t bytes) {
  const bool huge = bytes >= kHugeFrom;
  const std::size_t alignment = huge ? kHugePage : kLine;
  const std::size_t size = (std::max(bytes, kLine) + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
  if (data_ == nullptr) throw std::bad_alloc();
  // Advice: where there are no huge pages the memory is as good as any.
  if (huge) static_cast<void>(::madvise(data_.get(), size, MADV_HUGEPAGE));
}

void AlignedMemory::Free::operator()(std::byte* p) const { std::free(p); }

}  // namespace verbatim::kernels
