#pragma once
// Quantised rows of a panel to f32 on vectors, transposed on the way: lanes run over the 16 rows, as the matrix product
// wants them. V is avx2::V or avx512::V.

#include "kernels/block.hpp"
#include "kernels/dtype.hpp"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbatim::kernels::detail {

/// Elements that are decoded at once, of each of the panel's rows.
inline constexpr std::size_t kQuantisedGroup = 32;

/// What the elements of one block are multiplied by, and what is then added, for the 16 rows of a panel.
struct PanelScales {
  alignas(64) float scale[16][kPanelRows];
  alignas(64) float offset[8][kPanelRows];
};

template <class V, Dtype dtype>
struct QuantisedPanel {
  static constexpr std::size_t kBlockBytes = block_layout(dtype).bytes;
  static constexpr bool kSixBits = dtype == Dtype::q4_k || dtype == Dtype::q5_k;
  static constexpr bool kOffset = kSixBits || dtype == Dtype::q4_1 || dtype == Dtype::q5_1;
  using Rows = const std::byte* const*;  // 16 of them

  [[gnu::always_inline]] static __m128i load16(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  [[gnu::always_inline]] static __m256i load32(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static __m256i bytes(int value) {
    return _mm256_set1_epi8(static_cast<char>(value));
  }

  // Integers of one row: 32 signed bytes in the order of the elements.

  /// 16 bytes: their low halves, then their high halves.
  [[gnu::always_inline]] static __m256i halves_of(const std::byte* p) {
    const __m128i two = load16(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(two, 4), two), bytes(15));
  }
  /// The low or the high halves of 32 bytes.
  [[gnu::always_inline]] static __m256i half_of(__m256i two, bool high) {
    return _mm256_and_si256(high ? _mm256_srli_epi16(two, 4) : two, bytes(15));
  }
  /// 16 where bit e of the 32 is set, else 0.
  [[gnu::always_inline]] static __m256i sixteens(const std::byte* p) {
    std::int32_t bits;
    std::memcpy(&bits, p, 4);
    const __m256i spread = _mm256_shuffle_epi8(
        _mm256_set1_epi32(bits),
        _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i mask = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask), bytes(16));
  }
  /// 16 times the bits of each byte from `shift` on, cut to those of `mask`.
  [[gnu::always_inline]] static __m256i sixteen_times(__m256i high, std::size_t shift, int mask) {
    const __m128i right = _mm_cvtsi64_si128(static_cast<long long>(shift));
    return _mm256_slli_epi16(_mm256_and_si256(_mm256_srl_epi16(high, right), bytes(mask)), 4);
  }

  [[gnu::always_inline]] static __m256i integers(const std::byte* block, std::size_t group) {
    if constexpr (dtype == Dtype::q8_0) {
      return load32(block + 2);
    } else if constexpr (dtype == Dtype::q4_0) {
      return _mm256_sub_epi8(halves_of(block + 2), bytes(8));
    } else if constexpr (dtype == Dtype::q4_1) {
      return halves_of(block + 4);
    } else if constexpr (dtype == Dtype::q5_0) {
      const __m256i value = _mm256_or_si256(halves_of(block + 6), sixteens(block + 2));
      return _mm256_sub_epi8(value, bytes(16));
    } else if constexpr (dtype == Dtype::q5_1) {
      return _mm256_or_si256(halves_of(block + 8), sixteens(block + 4));
    } else if constexpr (dtype == Dtype::q4_k) {
      return half_of(load32(block + 16 + group / 2 * 32), group % 2 != 0);
    } else if constexpr (dtype == Dtype::q5_k) {
      const __m256i low = half_of(load32(block + 48 + group / 2 * 32), group % 2 != 0);
      return _mm256_or_si256(low, sixteen_times(load32(block + 16), group, 1));
    } else {
      const std::size_t side = group / 4, quarter = group % 4;
      const __m256i low = half_of(load32(block + 64 * side + quarter % 2 * 32), quarter >= 2);
      const __m256i high = sixteen_times(load32(block + 128 + 32 * side), 2 * quarter, 3);
      return _mm256_sub_epi8(_mm256_or_si256(low, high), bytes(32));
    }
  }

  // Scales.

  /// The f16 at `offset` of each row's block.
  [[gnu::always_inline]] static void halves(Rows rows, std::size_t offset, float* out) {
    alignas(32) std::uint16_t half[kPanelRows];
    for (std::size_t n = 0; n < kPanelRows; ++n) std::memcpy(half + n, rows[n] + offset, 2);
    for (std::size_t n = 0; n < kPanelRows; n += V::kLanes) {
      V::store(out + n, V::template weights<Dtype::f16>(half + n));
    }
  }
  /// out[n] = factor[n] * integer[n].
  [[gnu::always_inline]] static void scaled(__m128i integer, const float* factor, bool negative,
                                            float* out) {
    for (std::size_t part = 0; part * V::kLanes < kPanelRows; ++part) {
      const auto value = V::mul(V::from_bytes(integer, part), V::load(factor + part * V::kLanes));
      V::store(out + part * V::kLanes, negative ? V::negate(value) : value);
    }
  }
  /// A row's 8 scales of 6 bits, then its 8 minima, a byte each.
  [[gnu::always_inline]] static __m128i six_bits(const std::byte* p) {
    std::uint32_t a, b, c;
    std::memcpy(&a, p, 4);
    std::memcpy(&b, p + 4, 4);
    std::memcpy(&c, p + 8, 4);
    const std::uint32_t scales = (c & 0x0f0f0f0fu) | ((a >> 6 & 0x03030303u) << 4);
    const std::uint32_t minima = (c >> 4 & 0x0f0f0f0fu) | ((b >> 6 & 0x03030303u) << 4);
    return _mm_set_epi32(static_cast<int>(minima), static_cast<int>(b & 0x3f3f3f3fu),
                         static_cast<int>(scales), static_cast<int>(a & 0x3f3f3f3fu));
  }

  /// 16 rows of 16 bytes to 16 columns, in each half of the vectors: four rounds of interleaving row i with row i + 8.
  [[gnu::always_inline]] static void transpose(__m256i* r) {
    for (int round = 0; round < 4; ++round) {
      __m256i t[16];
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        t[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 8]);
        t[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 8]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) r[i] = t[i];
    }
  }

  /// Reads the scales of block `at` of each row.
  [[gnu::noinline]] static void begin(Rows rows, std::size_t at, PanelScales& scales) {
    const std::size_t block = at * kBlockBytes;
    if constexpr (kSixBits || dtype == Dtype::q6_k) {
      alignas(64) float d[kPanelRows], dmin[kPanelRows];
      __m256i r[16];
      for (std::size_t n = 0; n < 16; ++n) {
        const std::byte* p = rows[n] + block;
        r[n] = _mm256_castsi128_si256(kSixBits ? six_bits(p + 4) : load16(p + 192));
      }
      transpose(r);
      halves(rows, block + (kSixBits ? 0 : 208), d);
      if constexpr (kSixBits) halves(rows, block + 2, dmin);
      for (std::size_t j = 0; j < 16; ++j) {
        const __m128i integer = _mm256_castsi256_si128(r[j]);
        if (kSixBits && j >= 8) {
          scaled(integer, dmin, true, scales.offset[j - 8]);
        } else {
          scaled(integer, d, false, scales.scale[j]);
        }
      }
    } else {
      halves(rows, block, scales.scale[0]);
      if constexpr (kOffset) halves(rows, block + 2, scales.offset[0]);
    }
  }

  /// 16 elements of one k.
  [[gnu::always_inline]] static void values(__m128i integer, const float* scale,
                                            const float* offset, float* out) {
    for (std::size_t part = 0; part * V::kLanes < kPanelRows; ++part) {
      const auto q = V::from_bytes(integer, part);
      const auto s = V::load(scale + part * V::kLanes);
      // The product is exact (quantised.hpp), so one rounding of both is the rounding of the sum.
      V::store(out + part * V::kLanes,
               kOffset ? V::fma(q, s, V::load(offset + part * V::kLanes)) : V::mul(q, s));
    }
  }

  /// Elements 32 `group` and on of block `at`: out is (32, 16).
  [[gnu::noinline]] static void group(Rows rows, std::size_t at, std::size_t group,
                                      const PanelScales& scales, float* out) {
    __m256i r[16];
#pragma GCC unroll 16
    for (std::size_t n = 0; n < 16; ++n) r[n] = integers(rows[n] + at * kBlockBytes, group);
    transpose(r);
    const std::size_t each = dtype == Dtype::q6_k ? 2 * group : kSixBits ? group : 0;
    const float* first = scales.scale[each];
    const float* second = scales.scale[dtype == Dtype::q6_k ? each + 1 : each];
    const float* offset = scales.offset[kSixBits ? group : 0];
#pragma GCC unroll 16
    for (std::size_t k = 0; k < 16; ++k) {
      values(_mm256_castsi256_si128(r[k]), first, offset, out + k * kPanelRows);
      values(_mm256_extracti128_si256(r[k], 1), second, offset, out + (16 + k) * kPanelRows);
    }
  }
};

/// The functions of one format, chosen once a product.
template <class V>
struct GroupDecoder {
  void (*begin)(const std::byte* const* rows, std::size_t at, PanelScales& scales) = nullptr;
  void (*group)(const std::byte* const* rows, std::size_t at, std::size_t group,
                const PanelScales& scales, float* out) = nullptr;
  std::size_t groups = 1;  // of a block

  template <Dtype dtype>
  [[gnu::always_inline]] static GroupDecoder of() {
    constexpr std::size_t kGroups = block_layout(dtype).elements / kQuantisedGroup;
    return {QuantisedPanel<V, dtype>::begin, QuantisedPanel<V, dtype>::group, kGroups};
  }
  [[gnu::always_inline]] static GroupDecoder of(Dtype dtype) {
    switch (dtype) {
      case Dtype::q8_0:
        return of<Dtype::q8_0>();
      case Dtype::q4_0:
        return of<Dtype::q4_0>();
      case Dtype::q4_1:
        return of<Dtype::q4_1>();
      case Dtype::q5_0:
        return of<Dtype::q5_0>();
      case Dtype::q5_1:
        return of<Dtype::q5_1>();
      case Dtype::q4_k:
        return of<Dtype::q4_k>();
      case Dtype::q5_k:
        return of<Dtype::q5_k>();
      case Dtype::q6_k:
        return of<Dtype::q6_k>();
      case Dtype::f32:
      case Dtype::bf16:
      case Dtype::f16:
        break;
    }
    return {};
  }
};

}  // namespace verbatim::kernels::detail
