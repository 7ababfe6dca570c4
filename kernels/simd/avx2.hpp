#pragma once
// The vector type of the AVX2 backend: 8 lanes of f32, 4 of f64. For files compiled for AVX2, FMA and F16C only.
// Everything is inlined: an out-of-line copy could be picked by the linker for code that runs on older processors.

#include "kernels/dtype.hpp"

#include <immintrin.h>

#include <cstdint>

#define VERBATIM_INLINE [[gnu::always_inline]] static inline

namespace verbatim::kernels::avx2 {

struct V {
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRegisters = 16;
  using F = __m256;   // f32
  using D = __m256d;  // f64, half as many lanes
  using I = __m256i;

  VERBATIM_INLINE F zero() { return _mm256_setzero_ps(); }
  VERBATIM_INLINE F set1(float a) { return _mm256_set1_ps(a); }
  VERBATIM_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  VERBATIM_INLINE void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  VERBATIM_INLINE I first(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  /// The first n < kLanes elements; the other lanes are zero.
  VERBATIM_INLINE F load_first(const float* p, std::size_t n) {
    return _mm256_maskload_ps(p, first(n));
  }
  VERBATIM_INLINE void store_first(float* p, std::size_t n, F a) {
    _mm256_maskstore_ps(p, first(n), a);
  }

  VERBATIM_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
  VERBATIM_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  VERBATIM_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  VERBATIM_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
  VERBATIM_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  /// a * b - c, rounded once.
  VERBATIM_INLINE F fms(F a, F b, F c) { return _mm256_fmsub_ps(a, b, c); }
  /// a > b ? a : b, as the instruction defines it for zeros and NaN.
  VERBATIM_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
  VERBATIM_INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }
  VERBATIM_INLINE F negate(F a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
  VERBATIM_INLINE F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  VERBATIM_INLINE F with_sign_of(F a, F sign) {
    return _mm256_or_ps(abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
  }
  /// a < b ? x : y.
  VERBATIM_INLINE F if_less(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  VERBATIM_INLINE F if_equal(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
  }
  VERBATIM_INLINE F if_nan(F a, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  /// Bit i is set where lane i of a differs from b.
  VERBATIM_INLINE std::uint32_t differ(F a, F b) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)));
  }

  /// Sign and fraction taken away: 2^exponent of a normal number, 0 of a subnormal one, infinity of what is not finite.
  VERBATIM_INLINE F power_of_two(F a) { return _mm256_and_ps(a, _mm256_set1_ps(__builtin_inff())); }
  /// 2^n / a, for a power of two `a` and a result that are normal.
  template <int n>
  VERBATIM_INLINE F power_over(F a) {
    const I powers = _mm256_set1_epi32(static_cast<int>((254u + n) << 23));
    return _mm256_castsi256_ps(_mm256_sub_epi32(powers, _mm256_castps_si256(a)));
  }
  /// Bit i is set unless low <= lane i <= high.
  VERBATIM_INLINE std::uint32_t outside(F a, float low, float high) {
    const F inside = _mm256_and_ps(_mm256_cmp_ps(a, set1(low), _CMP_GE_OQ),
                                   _mm256_cmp_ps(a, set1(high), _CMP_LE_OQ));
    return static_cast<std::uint32_t>(_mm256_movemask_ps(inside)) ^ 0xffu;
  }
  /// kLanes 32-bit integers, from here to join(): toward zero.
  VERBATIM_INLINE I cut_to_ints(F a) { return _mm256_cvttps_epi32(a); }
  VERBATIM_INLINE I no_ints() { return _mm256_setzero_si256(); }
  VERBATIM_INLINE I add_ints(I a, I b) { return _mm256_add_epi32(a, b); }
  VERBATIM_INLINE D low_ints(I a) { return _mm256_cvtepi32_pd(_mm256_castsi256_si128(a)); }
  VERBATIM_INLINE D high_ints(I a) { return _mm256_cvtepi32_pd(_mm256_extracti128_si256(a, 1)); }

  VERBATIM_INLINE D low(F a) { return _mm256_cvtps_pd(_mm256_castps256_ps128(a)); }
  VERBATIM_INLINE D high(F a) { return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)); }
  VERBATIM_INLINE F join(D lo, D hi) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(lo)), _mm256_cvtpd_ps(hi),
                                1);
  }
  VERBATIM_INLINE D set1d(double a) { return _mm256_set1_pd(a); }
  VERBATIM_INLINE D addd(D a, D b) { return _mm256_add_pd(a, b); }
  VERBATIM_INLINE D subd(D a, D b) { return _mm256_sub_pd(a, b); }
  VERBATIM_INLINE D muld(D a, D b) { return _mm256_mul_pd(a, b); }
  VERBATIM_INLINE D divd(D a, D b) { return _mm256_div_pd(a, b); }
  VERBATIM_INLINE D fmad(D a, D b, D c) { return _mm256_fmadd_pd(a, b, c); }
  VERBATIM_INLINE I bits(D a) { return _mm256_castpd_si256(a); }
  VERBATIM_INLINE D from_bits(I a) { return _mm256_castsi256_pd(a); }
  VERBATIM_INLINE I set1i(std::uint64_t a) { return _mm256_set1_epi64x(static_cast<long long>(a)); }
  VERBATIM_INLINE I addi(I a, I b) { return _mm256_add_epi64(a, b); }
  VERBATIM_INLINE I subi(I a, I b) { return _mm256_sub_epi64(a, b); }
  VERBATIM_INLINE I ori(I a, I b) { return _mm256_or_si256(a, b); }
  template <int n>
  VERBATIM_INLINE I shift_left(I a) {
    return _mm256_slli_epi64(a, n);
  }
  template <int n>
  VERBATIM_INLINE I shift_right(I a) {
    return _mm256_srli_epi64(a, n);
  }

  /// kLanes stored weights as f32, exactly.
  template <Dtype dtype>
  VERBATIM_INLINE F weights(const void* p) {
    if constexpr (dtype == Dtype::f32) {
      return _mm256_loadu_ps(static_cast<const float*>(p));
    } else if constexpr (dtype == Dtype::bf16) {
      const __m128i half = _mm_loadu_si128(static_cast<const __m128i*>(p));
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    } else {
      return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    }
  }
  /// Signed bytes [part * kLanes, ...) of 16, as f32.
  VERBATIM_INLINE F from_bytes(__m128i bytes, std::size_t part) {
    const __m128i eight = part == 0 ? bytes : _mm_srli_si128(bytes, 8);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
  }
  VERBATIM_INLINE float max_lane(F a) {
    float lane[kLanes];
    store(lane, a);
    float m = lane[0];
    for (std::size_t i = 1; i < kLanes; ++i) m = lane[i] > m ? lane[i] : m;
    return m;
  }
};

}  // namespace verbatim::kernels::avx2
