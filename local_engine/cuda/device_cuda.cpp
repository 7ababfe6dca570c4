#include "local_engine/cuda/device_cuda.hpp"

#include "kernels/elementwise/elementwise_cuda.hpp"

#include <algorithm>

namespace verbatim::local_engine::cuda {
namespace {

constexpr int kMajorMin = 8;  // what the kernels are compiled for

std::string version_text(int version) {  // 13000: 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error no_device(std::string why, std::string advice) {
  return {Errc::unavailable, "no CUDA device: " + std::move(why), "backend", std::move(advice)};
}

Error lost(const char* doing, cudaError_t status) {
  return {Errc::unavailable,
          std::string("the CUDA device failed while ") + doing + ": " + cudaGetErrorString(status),
          "", "look at the driver's log; a restart opens the device again"};
}

}  // namespace

void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  if (status != cudaErrorMemoryAllocation) throw DeviceFailure(lost(doing, status), true);
  cudaGetLastError();  // it is told; what comes next starts anew
  throw DeviceFailure(
      {Errc::unavailable, std::string("out of device memory while ") + doing, "", ""}, false);
}

DeviceMemory::DeviceMemory(std::size_t bytes) {
  void* p = nullptr;
  const cudaError_t status = cudaMalloc(&p, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t left = 0, all = 0;
    const bool known = cudaMemGetInfo(&left, &all) == cudaSuccess;
    throw DeviceFailure(
        {Errc::unavailable,
         "out of device memory: " + std::to_string(bytes) + " bytes were asked for" +
             (known ? ", and " + std::to_string(left) + " of " + std::to_string(all) + " are free"
                    : ""),
         "", "allow less KV cache, or smaller batches"},
        false);
  }
  check(status, "taking memory");
  data_.reset(static_cast<std::byte*>(p));
}

void DeviceMemory::Free::operator()(std::byte* p) const {
  cudaFree(p);  // of a device that is lost it says so once more, to nobody
}

std::string Device::Facts::text() const {
  return name + ", compute capability " + std::to_string(major) + "." + std::to_string(minor);
}

Result<Device::Facts> Device::find() {
  int count = 0, driver = 0, needed = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
      return no_device("there is no NVIDIA driver", "install one, or use backend auto");
    cudaRuntimeGetVersion(&needed);
    return no_device("the driver is for CUDA " + version_text(driver) + ", and this build needs " +
                         version_text(needed),
                     "install a newer driver, or use backend auto");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return no_device("the driver shows none", "is CUDA_VISIBLE_DEVICES right? or use backend auto");
  if (status != cudaSuccess) return no_device(cudaGetErrorString(status), "use backend auto");
  cudaDeviceProp properties{};
  if (const auto asked = cudaGetDeviceProperties(&properties, 0); asked != cudaSuccess)
    return no_device(cudaGetErrorString(asked), "use backend auto");
  Facts facts{properties.name, properties.major, properties.minor};
  if (facts.major < kMajorMin)
    return Error{Errc::unsupported,
                 facts.text() + ": the kernels need " + std::to_string(kMajorMin) + ".0", "backend",
                 "use backend auto"};
  return facts;
}

Result<std::unique_ptr<Device>> Device::open() {
  auto facts = find();
  if (!facts) return facts.error();
  std::unique_ptr<Device> device(new Device(std::move(*facts)));
  try {
    check(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking), "making a stream");
    device->try_a_kernel();
  } catch (const DeviceFailure& failure) {
    return failure.error();
  }
  return device;
}

Device::~Device() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void Device::try_a_kernel() {
  const DeviceMemory memory(sizeof(float));
  float x = 1.5f;
  upload(memory.get(), &x, sizeof x);
  kernels::cuda::scale_in_place(reinterpret_cast<float*>(memory.get()), 3, 1, stream_);
  check(cudaGetLastError(), "starting the first kernel");
  download(&x, memory.get(), sizeof x);
  if (x != 4.5f)
    throw DeviceFailure({Errc::unavailable, "the CUDA device computes 1.5 * 3 wrongly",
                         facts_.text(), "use backend auto"},
                        true);
}

void Device::upload(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copying to it");
}

void Device::copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on it");
}

void Device::clear(void* at, std::size_t bytes) {
  check(cudaMemsetAsync(at, 0, bytes, stream_), "clearing memory");
}

void Device::download(void* to, const void* from, std::size_t bytes) {
  check(cudaGetLastError(), "starting kernels");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from it");
  check(cudaStreamSynchronize(stream_), "computing");
}

}  // namespace verbatim::local_engine::cuda
