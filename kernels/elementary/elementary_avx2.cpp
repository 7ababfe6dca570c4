#include "kernels/elementary/elementary_vector.hpp"
#include "kernels/simd/avx2.hpp"

namespace verbatim::kernels::detail {

void apply_avx2(Function f, const float* in, std::size_t count, float* out) {
  apply<avx2::V>(f, in, count, out);
}

}  // namespace verbatim::kernels::detail
