#include "kernels/mma/mma_vector.hpp"
#include "kernels/simd/avx2.hpp"

namespace verbatim::kernels::detail {

void mma_avx2(const MmaRange& range) { mma_vector<avx2::V>(range); }

}  // namespace verbatim::kernels::detail
