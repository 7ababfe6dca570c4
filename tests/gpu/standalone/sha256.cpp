// schema/digest.hpp without OpenSSL: FIPS 180-4, for a machine that has none.

#include "schema/digest.hpp"
// Two definitions, and so an error, should the real one have been found before it.
#include "tests/gpu/standalone/include/boost/system/result.hpp"

#include <bit>
#include <cstring>

namespace verbatim {

namespace {

constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct State {
  std::uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::uint8_t block[64];
  std::uint64_t bytes = 0;

  void compress() {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i)
      w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
             std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::uint32_t v[8];
    std::memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t t1 = v[7] +
                               (std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25)) +
                               ((v[4] & v[5]) ^ (~v[4] & v[6])) + kRound[i] + w[i];
      const std::uint32_t t2 = (std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22)) +
                               ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      for (int j = 7; j > 0; --j) v[j] = v[j - 1];
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i) h[i] += v[i];
  }
  void add(std::uint8_t byte) {
    block[bytes++ % 64] = byte;
    if (bytes % 64 == 0) compress();
  }
};

}  // namespace

Sha256::Sha256() : context_(new State) {}
Sha256::~Sha256() { delete static_cast<State*>(context_); }
void Sha256::update(Bytes bytes) {
  for (const std::uint8_t byte : bytes) static_cast<State*>(context_)->add(byte);
}
Digest Sha256::finish() {
  State& state = *static_cast<State*>(context_);
  const std::uint64_t bits = state.bytes * 8;
  state.add(0x80);
  while (state.bytes % 64 != 56) state.add(0);
  for (int i = 56; i >= 0; i -= 8) state.add(static_cast<std::uint8_t>(bits >> i));
  Digest digest;
  for (std::size_t i = 0; i < 32; ++i)
    digest.bytes[i] = static_cast<std::uint8_t>(state.h[i / 4] >> (24 - 8 * (i % 4)));
  state = {};
  return digest;
}

Digest sha256(std::initializer_list<Bytes> pieces) {
  Sha256 all;
  for (const Bytes& piece : pieces) all.update(piece);
  return all.finish();
}

}  // namespace verbatim
