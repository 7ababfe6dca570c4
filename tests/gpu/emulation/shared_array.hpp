#pragma once
// Shared memory of a block with every access checked: bounds, reads before any write, and accesses of two threads, one of
// them a write, with no barrier between. The last is found whatever the schedule.

#include "tests/gpu/emulation/block.hpp"

#include <cstddef>
#include <source_location>
#include <type_traits>

namespace verbatim::emulation {

class SharedStorage;

/// The calling block's array declared at `where`: made, unwritten, when its first thread comes.
SharedStorage* shared_storage(const char* name, std::size_t count, std::size_t element_bytes,
                              std::source_location where);
/// The element, after the checks. Faults.
const void* checked_read(SharedStorage* storage, std::size_t i, std::source_location where);
void* checked_write(SharedStorage* storage, std::size_t i, std::source_location where);
/// Faults unless `i` is a multiple of `elements`, as a vector access needs.
void check_aligned(const SharedStorage* storage, std::size_t i, std::size_t elements,
                   std::source_location where);

/// An index that remembers which line of the kernel used it.
struct Index {
  std::size_t i;
  std::source_location where;
  template <class Integer>
  requires std::is_integral_v<Integer> Index(
      Integer index, std::source_location at = std::source_location::current())
      : i(static_cast<std::size_t>(index)), where(at) {}
};

/// Stands for T* into shared memory.
template <class T>
class SharedPointer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  class Element {
   public:
    Element(SharedStorage* storage, std::size_t i, std::source_location where)
        : storage_(storage), i_(i), where_(where) {}
    Element(const Element&) = delete;
    operator T() const { return *static_cast<const T*>(checked_read(storage_, i_, where_)); }
    const Element& operator=(const T& value) const {
      *static_cast<T*>(checked_write(storage_, i_, where_)) = value;
      return *this;
    }
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }

   private:
    SharedStorage* storage_;
    std::size_t i_;
    std::source_location where_;
  };

  SharedPointer(SharedStorage* storage, std::size_t at) : storage_(storage), at_(at) {}
  Element operator[](Index index) const { return {storage_, at_ + index.i, index.where}; }
  template <class Integer>
  SharedPointer operator+(Integer i) const {
    return {storage_, at_ + static_cast<std::size_t>(i)};
  }
  [[nodiscard]] SharedStorage* storage() const { return storage_; }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  SharedStorage* storage_;
  std::size_t at_;
};

inline float4 load4(SharedPointer<float> p,
                    std::source_location where = std::source_location::current()) {
  check_aligned(p.storage(), p.at(), 4, where);
  return {p[Index(0, where)], p[Index(1, where)], p[Index(2, where)], p[Index(3, where)]};
}

inline void store4(SharedPointer<float> p, float4 v,
                   std::source_location where = std::source_location::current()) {
  check_aligned(p.storage(), p.at(), 4, where);
  const float values[4] = {v.x, v.y, v.z, v.w};
  for (int i = 0; i < 4; ++i) p[Index(i, where)] = values[i];
}

template <class T>
SharedPointer<T> shared_array(const char* name, std::size_t count, std::source_location where) {
  return {shared_storage(name, count, sizeof(T), where), 0};
}

}  // namespace verbatim::emulation
