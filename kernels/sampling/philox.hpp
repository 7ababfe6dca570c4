#pragma once
// Philox4x32-10 (Salmon et al. 2011): a counter-based random function, and the Gumbel noise made of it.

#include "kernels/backend.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::kernels {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// The four output words for one counter.
[[nodiscard]] PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

/// G = -log(-log(u)) in f32, with u = (2*(r0 >> 9) + 1) * 2^-24 and r0 the first word of
/// philox(counter = (position, token, choice, 0), key = (low, high half of seed)). Numerics section 7.
[[nodiscard]] float gumbel_noise(std::uint64_t seed, std::uint32_t position, std::uint32_t token,
                                 std::uint32_t choice);
/// The same for `count` tokens at once: out[i] is the noise of tokens[i].
void gumbel_noise(Backend backend, std::uint64_t seed, std::uint32_t position,
                  const std::int32_t* tokens, std::size_t count, std::uint32_t choice, float* out);

}  // namespace verbatim::kernels
