#include "kernels/attention/attention_vector.hpp"
#include "kernels/simd/avx512.hpp"

namespace verbatim::kernels::detail {

void attention_avx512(const QueryGroup& group) { attention_vector<avx512::V>(group); }

}  // namespace verbatim::kernels::detail
