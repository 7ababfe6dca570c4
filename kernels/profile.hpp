#pragma once
// The numerics profiles: which arithmetic a result was made by. A name is recorded with every answer.

#include "schema/error.hpp"

#include <string_view>

namespace verbatim::kernels {

/// They differ in the matrix products with bf16 and f16 weights alone: chains of fused multiply-adds (matmul/matmul.hpp),
/// or what the tensor cores of Hopper and Blackwell compute (mma/mma.hpp).
enum class Profile { f32_k256, mma_hopper };

/// "f32-k256/1", "mma-hopper/1".
[[nodiscard]] std::string_view name(Profile profile);
/// `invalid_input` for another name.
[[nodiscard]] Result<Profile> parse_profile(std::string_view text);

}  // namespace verbatim::kernels
