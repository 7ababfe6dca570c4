#include "kernels/sampling/philox.hpp"

#include "kernels/elementary/elementary.hpp"

namespace verbatim::kernels {

PhiloxCounter philox4x32_10(PhiloxCounter c, PhiloxKey key) {
  // Multipliers and key increments of the paper.
  constexpr std::uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr std::uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiply0 * c[0];
    const std::uint64_t p1 = kMultiply1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kStep0;
    key[1] += kStep1;
  }
  return c;
}

namespace {

/// An odd number of 24 bits, times 2^-24: exact, and never 0 or 1.
float uniform(std::uint64_t seed, std::uint32_t position, std::uint32_t token,
              std::uint32_t choice) {
  const PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const std::uint32_t r0 = philox4x32_10({position, token, choice, 0}, key)[0];
  return static_cast<float>(2 * (r0 >> 9) + 1) * 0x1p-24f;
}

}  // namespace

float gumbel_noise(std::uint64_t seed, std::uint32_t position, std::uint32_t token,
                   std::uint32_t choice) {
  return -log_f32(-log_f32(uniform(seed, position, token, choice)));
}

void gumbel_noise(Backend backend, std::uint64_t seed, std::uint32_t position,
                  const std::int32_t* tokens, std::size_t count, std::uint32_t choice, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = uniform(seed, position, static_cast<std::uint32_t>(tokens[i]), choice);
  }
  for (int twice = 0; twice < 2; ++twice) {
    log_f32(backend, out, count, out);
    for (std::size_t i = 0; i < count; ++i) out[i] = -out[i];
  }
}

}  // namespace verbatim::kernels
