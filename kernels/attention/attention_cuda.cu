#include "kernels/attention/attention_element.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.hpp"

namespace verbatim::kernels::cuda {

void attention(const AttentionArgs& args, cudaStream_t stream) {
  const std::size_t queries = args.row_count * args.heads;
  const std::size_t pages = queries * args.pages_max;
  for_each(pages * 256, element::AttentionScore{args}, stream);
  for_each(pages, element::AttentionPage{args}, stream);
  for_each(pages * args.head_dim, element::AttentionValue{args}, stream);
  for_each(queries * args.head_dim, element::AttentionMerge{args}, stream);
}

}  // namespace verbatim::kernels::cuda
