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

/// Floats of one pass, kept for the next: grows, and neither clears nor keeps what it held. Movable.
class Scratch {
 public:
  /// Room for `count` floats, of any value: the caller writes before it reads.
  float* take(std::size_t count) {
    if (count > room_) {
      memory_ = {};  // first, so that both are never there at once
      memory_ = AlignedMemory(count * sizeof(float));
      room_ = count;
    }
    return data();
  }
  /// What take() gave last.
  [[nodiscard]] float* data() { return reinterpret_cast<float*>(memory_.get()); }
  [[nodiscard]] const float* data() const { return reinterpret_cast<const float*>(memory_.get()); }

 private:
  AlignedMemory memory_;
  std::size_t room_ = 0;
};

}  // namespace verbatim::kernels
