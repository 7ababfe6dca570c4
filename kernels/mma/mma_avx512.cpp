#include "kernels/mma/mma_vector.hpp"
#include "kernels/simd/avx512.hpp"

namespace verbatim::kernels::detail {

void mma_avx512(const MmaRange& range) { mma_vector<avx512::V>(range); }

}  // namespace verbatim::kernels::detail
