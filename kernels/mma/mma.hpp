#pragma once
// Matrix products of profile mma-hopper/1: what the instruction mma.sync.m16n8k16 of Hopper's and Blackwell's tensor
// cores computes from bf16 or f16 operands with f32 accumulation, bit for bit, on any processor.

#include "kernels/backend.hpp"
#include "kernels/dtype.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/thread_pool.hpp"

#include <cstddef>
#include <cstdint>

namespace verbatim::kernels {

/// Products that the instruction adds at once, together with c.
inline constexpr std::size_t kMmaDepth = 16;

/// One output of one instruction: c + a[0] * b[0] + ... + a[15] * b[15]. `dtype` is bf16 or f16, a and b its bits.
///
///   exponents  that of a product is the sum of its factors', its significand their product, not normalised; a subnormal
///              factor has the exponent of the smallest normal one. Zero products take no part, nor does a zero c
///   order      e = the largest exponent of the products and of c, at least -133. Each product and c is cut toward zero
///              to a multiple of 2^(e - 25). The sum of these is exact, and cut toward zero to 24 significant bits
///   zeros      a sum of zero is +0, and so is one that is below the smallest float, 2^-149
///   range      NaN when a factor or c is not finite, when c or the result is not zero and below 2^-100 in magnitude, or
///              when the sum is beyond the largest float: there the arithmetic has left the profile
[[nodiscard]] float mma_block(Dtype dtype, const std::uint16_t* a, const std::uint16_t* b, float c);

/// Numerics: sections 2 and 8, profile mma-hopper/1.
///
///   shapes    as matmul(); w.dtype() is bf16 or f16
///   order     x is rounded to the weights' type (nearest, ties to even). For each output: in each block of 256 k,
///             s = +0; s = mma_block(x[k..k+15], w[k..k+15], s) in rising k, the last 16 filled up with zeros;
///             t = +0; t = t + s in rising blocks; last t + bias
///   range     an output whose arithmetic left the profile is NaN; so is every output of a row of x with an element that
///             is not finite when rounded
///   promise   y[i][n] depends on x[i], w[n] and bias[n] alone: not on m, N, threads, backend or tiling
void mma_matmul(Backend backend, const PackedWeights& w, const MatmulArgs& args,
                ThreadPool* pool = nullptr);

}  // namespace verbatim::kernels
