#pragma once
// The quantised blocks of GGUF files: what each element of a block is worth, as one f32.

#include "kernels/dtype.hpp"

#include <cstddef>

namespace verbatim::kernels {

/// Numerics: section 1 of profile f32-k256/1. Every product and every sum below is rounded once, left to right; no
/// product here needs rounding (d and dmin are f16, the rest are small integers), so only a sum with two terms can.
///
///   format  bytes of a block, in order                                  element e of the block
///   Q8_0    f16 d, i8 q[32]                                             q[e] * d
///   Q4_0    f16 d, u8 n[16]                                             (n(e) - 8) * d
///   Q4_1    f16 d, f16 m, u8 n[16]                                      n(e) * d + m
///   Q5_0    f16 d, u32 h, u8 n[16]                                      (n(e) + 16 h(e) - 16) * d
///   Q5_1    f16 d, f16 m, u32 h, u8 n[16]                               (n(e) + 16 h(e)) * d + m
///   Q4_K    f16 d, f16 dmin, u8 s[12], u8 n[128]                        (d * sc) * n(e) - dmin * mn
///   Q5_K    f16 d, f16 dmin, u8 s[12], u8 h[32], u8 n[128]              (d * sc) * (n(e) + 16 h(e)) - dmin * mn
///   Q6_K    u8 n[128], u8 h[64], i8 sc[16], f16 d                       (d * sc[e / 16]) * (n(e) + 16 h(e) - 32)
///
/// Of 32 elements, n(e) is the low half of n[e] for e < 16, the high half of n[e - 16] beyond, and h(e) is bit e of h.
/// Q4_K, Q5_K: each 64 elements take 32 bytes of n, low halves first; h(e) is bit e / 32 of h[e % 32]; sc and mn, of 6
/// bits, belong to j = e / 32: s[j] & 63 and s[j + 4] & 63 for j < 4, else (s[j + 4] & 15) | (s[j - 4] >> 6) << 4 and
/// (s[j + 4] >> 4) | (s[j] >> 6) << 4. Q6_K: each 128 elements take 64 bytes of n and 32 of h; of those, elements 0 to 63
/// are the low halves, 64 to 127 the high ones, and h(e) is bits 2 (e / 32) and above of h[e % 32].
///
/// A damaged file may hold infinite or NaN scales: then so are the elements, and the request that meets them ends.
void dequantise(const void* data, Dtype dtype, std::size_t count, float* out);

}  // namespace verbatim::kernels
