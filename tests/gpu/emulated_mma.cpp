// The tensor core of the emulation: lanes exchange their fragments, and each computes its four outputs by the bit model.

#include "kernels/cuda/launch.cuh"
#include "kernels/mma/mma.hpp"
#include "kernels/mma/tensor_core.cuh"

namespace verbatim::kernels::cuda {

namespace {

/// Two 16-bit elements of a register: k and k + 1.
void unpack(std::uint32_t bits, std::uint16_t* out) {
  out[0] = static_cast<std::uint16_t>(bits & 0xffffu);
  out[1] = static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace

void tensor_core(Dtype dtype, const Fragments& f, float (&c)[4]) {
  const unsigned lane = emulation::lane_index(), g = lane / 4, t = lane % 4;
  std::uint16_t a[2][16], b[2][16];  // rows g and g + 8; columns 2t and 2t + 1
  for (unsigned q = 0; q < 4; ++q) {
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t theirs = __shfl_sync(kAllLanes, f.a[i], static_cast<int>(g * 4 + q));
      unpack(theirs, &a[i % 2][2 * q + i / 2 * 8]);
    }
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned column = 2 * t + i / 2;
      const std::uint32_t theirs =
          __shfl_sync(kAllLanes, f.b[i % 2], static_cast<int>(column * 4 + q));
      unpack(theirs, &b[i / 2][2 * q + i % 2 * 8]);
    }
  }
  for (unsigned i = 0; i < 4; ++i) c[i] = mma_block(dtype, a[i / 2], b[i % 2], c[i]);
}

}  // namespace verbatim::kernels::cuda
