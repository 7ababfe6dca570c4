#include "kernels/matmul/matmul_vector.hpp"
#include "kernels/simd/avx2.hpp"

namespace verbatim::kernels::detail {

void matmul_avx2(const PanelRange& range) { matmul_vector<avx2::V>(range); }

}  // namespace verbatim::kernels::detail
