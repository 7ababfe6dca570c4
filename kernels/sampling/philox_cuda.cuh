#pragma once
// philox.hpp for one token, on the GPU.

#include "kernels/elementary/elementary_cuda.cuh"

#include <cstdint>

namespace verbatim::kernels::cuda {

/// The first output word of Philox4x32-10.
__device__ inline std::uint32_t philox4x32_10(std::uint32_t position, std::uint32_t token,
                                              std::uint32_t choice, std::uint64_t seed) {
  std::uint32_t c0 = position, c1 = token, c2 = choice, c3 = 0;
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c0;
}

__device__ inline float gumbel_noise(std::uint64_t seed, std::uint32_t position,
                                     std::uint32_t token, std::uint32_t choice) {
  const std::uint32_t r0 = philox4x32_10(position, token, choice, seed);
  const float u = rn::mul(static_cast<float>(2 * (r0 >> 9) + 1), 0x1p-24f);
  return -log(-log(u));
}

}  // namespace verbatim::kernels::cuda
