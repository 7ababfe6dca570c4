#include "kernels/elementary/elementary_vector.hpp"
#include "kernels/simd/avx512.hpp"

namespace verbatim::kernels::detail {

void apply_avx512(Function f, const float* in, std::size_t count, float* out) {
  apply<avx512::V>(f, in, count, out);
}

}  // namespace verbatim::kernels::detail
