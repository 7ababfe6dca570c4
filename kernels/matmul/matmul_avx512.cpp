#include "kernels/matmul/matmul_vector.hpp"
#include "kernels/simd/avx512.hpp"

namespace verbatim::kernels::detail {

void matmul_avx512(const PanelRange& range) { matmul_vector<avx512::V>(range); }

}  // namespace verbatim::kernels::detail
