#pragma once
// How the engine gets at a GPU without knowing CUDA: a program that has the CUDA backend linked hands it over at its start.

#include "kernels/backend.hpp"
#include "kernels/profile.hpp"
#include "local_engine/model/model.hpp"
#include "local_engine/model/weights.hpp"
#include "schema/error.hpp"

#include <memory>
#include <string>

namespace verbatim::local_engine {

struct CudaBackend {
  /// What the device is: "NVIDIA H200, compute capability 9.0". `unavailable`: there is none, the driver is missing or too
  /// old, or it fails; `unsupported`: its compute capability is too small. Cheap enough for every start.
  Result<std::string> (*device)();
  /// Brings the weights onto the device; none of the host's is read afterwards. Also `unsupported`: weights or a profile
  /// for which there is no kernel, or `unavailable`: out of device memory.
  Result<std::unique_ptr<Model>> (*load)(const HostModel& host, kernels::Backend host_backend,
                                         kernels::Profile profile);
};

/// Once, before any engine is loaded. Without it the backend "cuda" is refused.
void provide(const CudaBackend& backend);
/// Null when the program has none.
[[nodiscard]] const CudaBackend* cuda_backend();

}  // namespace verbatim::local_engine
