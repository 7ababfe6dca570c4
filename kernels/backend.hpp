#pragma once
// The CPU backends: which exist, which this processor can run. All give the same bits (numerics profile f32-k256/1).

#include "schema/error.hpp"

#include <string_view>
#include <vector>

namespace verbatim::kernels {

/// The instruction set an operator runs with. It changes the speed, never a bit of a result.
enum class Backend { scalar, avx2, avx512 };

/// True when processor and operating system can run it. avx2 needs AVX2, FMA and F16C; avx512 also F, BW, VL, DQ.
[[nodiscard]] bool supported(Backend backend);
/// The widest supported one.
[[nodiscard]] Backend best_backend();
/// Every supported one, scalar first: what tests compare.
[[nodiscard]] std::vector<Backend> supported_backends();

[[nodiscard]] std::string_view name(Backend backend);
/// "scalar", "avx2", "avx512", or "auto" for the best. `invalid_input` for another name, `unsupported` when
/// this processor cannot run it.
[[nodiscard]] Result<Backend> parse_backend(std::string_view text);

/// True when the calling thread's floating-point unit rounds to nearest even and keeps subnormals (MXCSR without FTZ and
/// DAZ). A library built with -ffast-math can change that at load; every thread that computes must check at its start.
[[nodiscard]] bool floating_point_is_exact();
/// Sets the calling thread's floating-point unit to that state.
void make_floating_point_exact();

}  // namespace verbatim::kernels
