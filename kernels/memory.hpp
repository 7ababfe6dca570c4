#pragma once
// Memory for what is large and streamed through: packed weights, keys and values.

#include <cstddef>
#include <memory>

namespace verbatim::kernels {

/// A block of bytes, aligned to 64, not initialised. From some megabytes on it lies on huge pages where the system
/// grants them: through 4 KiB pages a product with one row waits for address translation more than for memory.
/// Movable. Throws std::bad_alloc.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(std::size_t bytes);
  [[nodiscard]] std::byte* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace verbatim::kernels
