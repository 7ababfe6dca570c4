#pragma once
// One mma.sync.m16n8k16 of a warp: c (16, 8) += a (16, 16) * b (16, 8), f32 accumulation.

#include "kernels/dtype.hpp"

#include <cstdint>

namespace verbatim::kernels::cuda {

/// What each lane of the warp holds of the operands: with g = lane / 4 and t = lane % 4, two 16-bit elements a register, the
/// lower k in the lower half.
///   a   (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the next k
///   b   (2t, g), (2t + 8, g), each with the next k
///   c   (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
struct Fragments {
  std::uint32_t a[4], b[2];
};

#ifdef VERBATIM_CUDA_EMULATION
void tensor_core(Dtype dtype, const Fragments& f,
                 float (&c)[4]);  // from the bit model: tests/gpu/emulated_mma.cpp

template <Dtype dtype>
void multiply_add(const Fragments& f, float (&c)[4]) {
  tensor_core(dtype, f, c);
}
#else
template <Dtype dtype>
__device__ inline void multiply_add(const Fragments& f, float (&c)[4]) {
  if constexpr (dtype == Dtype::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]));
  }
}
#endif

}  // namespace verbatim::kernels::cuda
