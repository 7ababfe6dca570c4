#pragma once
// One text for the tests of the kernels: with the emulation, under each of its schedules, and on a GPU, twice.

#include "tests/kernels/support.hpp"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace verbatim::kernels::test {

#ifdef VERBATIM_CUDA_EMULATION
inline constexpr std::size_t kRuns = emulation::kSchedules.size();
inline void begin_run(std::size_t run) { emulation::use(emulation::kSchedules[run]); }
#else
inline constexpr std::size_t kRuns = 2;
inline void begin_run(std::size_t) {}
#endif

/// Memory that kernels can reach, freed with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  ~DeviceMemory() { free(); }

  /// Not initialised.
  template <class T>
  T* fresh(std::size_t count) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, std::max<std::size_t>(count * sizeof(T), 1)), cudaSuccess);
    blocks_.push_back(p);
    return static_cast<T*>(p);
  }
  template <class T>
  T* upload(const T* from, std::size_t count) {
    T* to = fresh<T>(count);
    EXPECT_EQ(cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return to;
  }
  template <class T>
  T* upload(const std::vector<T>& from) {
    return upload(from.data(), from.size());
  }
  /// After everything that was launched.
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> to(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return to;
  }
  void free() {
    for (void* p : blocks_) EXPECT_EQ(cudaFree(p), cudaSuccess);
    blocks_.clear();
  }

 private:
  std::vector<void*> blocks_;
};

/// Skips, loudly, without a device.
class OnDevice : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      GTEST_SKIP() << "SKIPPED: no CUDA device: the kernels' bits on a GPU were not compared";
    begin_run(GetParam());
  }
  void TearDown() override {
    memory_.free();
    begin_run(0);
  }
  DeviceMemory memory_;
};

}  // namespace verbatim::kernels::test
