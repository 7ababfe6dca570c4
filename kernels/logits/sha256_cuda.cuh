#pragma once
// SHA-256 (FIPS 180-4) of whole words, by one thread.

#include "kernels/elementary/detail.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels::cuda {

struct Sha256 {
  std::uint32_t words[8];  ///< the digest, each word's highest byte first
};

/// Section 4.2.2.
VERBATIM_TABLE std::uint32_t kSha256Round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ inline std::uint32_t rotated(std::uint32_t x, unsigned by) {
  return x >> by | x << (32 - by);
}

/// One block of 16 message words, which it uses up.
__device__ inline void compress(Sha256& state, std::uint32_t (&w)[16]) {
  std::uint32_t v[8];
  for (unsigned i = 0; i < 8; ++i) v[i] = state.words[i];
#pragma unroll
  for (unsigned round = 0; round < 64; ++round) {
    const std::uint32_t word = w[round % 16];
    const std::uint32_t s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    const std::uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const std::uint32_t t1 = v[7] + s1 + choice + kSha256Round[round] + word;
    const std::uint32_t s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    const std::uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    for (unsigned i = 7; i > 0; --i) v[i] = v[i - 1];
    v[4] += t1;
    v[0] = t1 + s0 + majority;
    // The word of 16 rounds on takes this one's place.
    const std::uint32_t a = w[(round + 1) % 16], b = w[(round + 14) % 16];
    w[round % 16] = word + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[(round + 9) % 16] +
                    (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
  }
  for (unsigned i = 0; i < 8; ++i) state.words[i] += v[i];
}

/// Of `count` words, each by its highest byte first: word(i).
template <class Word>
__device__ inline Sha256 sha256(std::size_t count, const Word& word) {
  Sha256 state{{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                0x5be0cd19}};
  const std::size_t end = (count + 3 + 15) / 16 * 16;  // a word of padding, two of length
  const std::uint64_t bits = static_cast<std::uint64_t>(count) * 32;
  for (std::size_t begin = 0; begin < end; begin += 16) {
    std::uint32_t w[16];
    for (unsigned i = 0; i < 16; ++i) {
      const std::size_t n = begin + i;
      w[i] = n < count      ? word(n)
             : n == count   ? 0x80000000u
             : n == end - 2 ? static_cast<std::uint32_t>(bits >> 32)
             : n == end - 1 ? static_cast<std::uint32_t>(bits)
                            : 0u;
    }
    compress(state, w);
  }
  return state;
}

}  // namespace verbatim::kernels::cuda
