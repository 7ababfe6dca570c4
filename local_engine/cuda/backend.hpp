#pragma once
// The CUDA backend, for whoever starts a program that has it: provide(cuda::backend()).

#include "local_engine/cuda_backend.hpp"

namespace verbatim::local_engine::cuda {

[[nodiscard]] CudaBackend backend();

}  // namespace verbatim::local_engine::cuda
