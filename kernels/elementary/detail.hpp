#pragma once
// Shared by the backends of the elementary functions: constants, and the exact values for hard cases.

#include <cstddef>

// Tables that the GPU's text reads too (cuda/shared_text.hpp).
#ifdef __CUDACC__
#define VERBATIM_TABLE static __device__ constexpr
#else
#define VERBATIM_TABLE inline constexpr
#endif

namespace verbatim::kernels {
// As in elementary.hpp.
[[nodiscard]] float exp_f32(float x);
}  // namespace verbatim::kernels

namespace verbatim::kernels::detail {

inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;   // the f64 nearest to ln 2
inline constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;  // and to what is left
/// Adding it to |x| < 2^51 rounds x to an integer, which then stands in the sum's low bits.
inline constexpr double kRounder = 0x1.8p52;
inline constexpr double kHalfSqrt2 = 0x1.6a09e667f3bcdp-1;
/// Below it e^x < 2^-126, and exp is +0.
inline constexpr float kExpFlush = -87.33654f;
/// Bound of the relative error of the f64 values of log and tanh (argued in elementary_scalar.cpp, with a margin of 4).
inline constexpr double kF64Error = 0x1p-49;

/// Coefficients of Taylor series, highest power first. exp: 1/12! ... 1/1!, 1/0!.
VERBATIM_TABLE double kExpSeries[13] = {1.0 / 479001600,
                                        1.0 / 39916800,
                                        1.0 / 3628800,
                                        1.0 / 362880,
                                        1.0 / 40320,
                                        1.0 / 5040,
                                        1.0 / 720,
                                        1.0 / 120,
                                        1.0 / 24,
                                        1.0 / 6,
                                        1.0 / 2,
                                        1.0,
                                        1.0};
/// (e^r - 1 - r) / r^2: 1/14! ... 1/2!.
VERBATIM_TABLE double kExpm1Series[13] = {
    1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
    1.0 / 362880,      1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,
    1.0 / 24,          1.0 / 6,          1.0 / 2};
/// (atanh(s)/s - 1) / s^2: 1/23 ... 1/3.
VERBATIM_TABLE double kAtanhSeries[11] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17,
                                          1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                                          1.0 / 7,  1.0 / 5,  1.0 / 3};

/// The correctly rounded value by double-double arithmetic, for finite x > 0 other than 1.
[[nodiscard]] float log_exact(float x);
/// The same for finite x other than 0.
[[nodiscard]] float tanh_exact(float x);

enum class Function { exp, log, tanh, silu, gelu_tanh };
void apply_scalar(Function f, const float* in, std::size_t count, float* out);
/// What apply_scalar is on a processor without FMA; tests run it everywhere.
void apply_portable(Function f, const float* in, std::size_t count, float* out);
void apply_avx2(Function f, const float* in, std::size_t count, float* out);
void apply_avx512(Function f, const float* in, std::size_t count, float* out);

}  // namespace verbatim::kernels::detail
