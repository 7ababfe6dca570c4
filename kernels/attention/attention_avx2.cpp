#include "kernels/attention/attention_vector.hpp"
#include "kernels/simd/avx2.hpp"

namespace verbatim::kernels::detail {

void attention_avx2(const QueryGroup& group) { attention_vector<avx2::V>(group); }

}  // namespace verbatim::kernels::detail
