#include "local_engine/cuda/backend.hpp"
#include "local_engine/cuda/device_cuda.hpp"
#include "local_engine/cuda/model_cuda.hpp"

namespace verbatim::local_engine::cuda {
namespace {

Result<std::string> device() {
  const auto facts = Device::find();
  if (!facts) return facts.error();
  return facts->text();
}

}  // namespace

CudaBackend backend() { return {&device, &CudaModel::make}; }

}  // namespace verbatim::local_engine::cuda
