#pragma once
// The device, as narrow as the engine needs it: memory, copies, one stream, and what it says of itself. Compiled against
// CUDA's runtime, and for tests against their emulation of it.

#include "local_engine/model/model.hpp"
#include "schema/error.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::local_engine::cuda {

/// Throws DeviceFailure unless `status` is success. All but a lack of memory counts as a device that is lost: CUDA's
/// other errors stay until the process ends.
void check(cudaError_t status, const char* doing);

/// Memory of the device. Throws DeviceFailure. May end on any thread, and after the device was lost.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes);
  [[nodiscard]] std::byte* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// The first card that CUDA shows (CUDA_VISIBLE_DEVICES decides which that is), with a stream on which everything happens
/// in order. Members throw DeviceFailure. One thread at a time.
class Device {
 public:
  struct Facts {
    std::string name;
    int major = 0, minor = 0;
    [[nodiscard]] std::string text() const;  ///< "NVIDIA H200, compute capability 9.0"
  };
  /// As CudaBackend::device().
  [[nodiscard]] static Result<Facts> find();
  /// Also runs a kernel, and looks at what it computed: a driver that cannot run this build's code says so here.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// `from` may change when it returns.
  void upload(void* to, const void* from, std::size_t bytes);
  void copy(void* to, const void* from, std::size_t bytes);
  void clear(void* at, std::size_t bytes);
  /// Waits for all that was launched before, and says if any of it failed.
  void download(void* to, const void* from, std::size_t bytes);

 private:
  explicit Device(Facts facts) : facts_(std::move(facts)) {}
  void try_a_kernel();

  Facts facts_;
  cudaStream_t stream_ = nullptr;
};

/// An array of one pass, kept for the next: grows, and neither clears nor keeps what it held.
template <class T>
class DeviceArray {
 public:
  /// Room for `count` elements of any value.
  T* take(std::size_t count) {
    if (count > room_) {
      memory_ = {};  // first, so that both are never there at once
      room_ = 0;
      memory_ = DeviceMemory(count * sizeof(T));
      room_ = count;
    }
    return data();
  }
  /// What take() gave last.
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  T* fill(Device& device, const std::vector<T>& from) {
    device.upload(take(from.size()), from.data(), from.size() * sizeof(T));
    return data();
  }

 private:
  DeviceMemory memory_;
  std::size_t room_ = 0;
};

}  // namespace verbatim::local_engine::cuda
