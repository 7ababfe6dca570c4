#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.hpp"
#include "kernels/elementwise/elementwise_element.hpp"

namespace verbatim::kernels::cuda {

void swiglu(const float* gate, const float* up, std::size_t count, float* out,
            cudaStream_t stream) {
  for_each(count, element::Swiglu{gate, up, out}, stream);
}
void geglu(const float* gate, const float* up, std::size_t count, float* out, cudaStream_t stream) {
  for_each(count, element::Geglu{gate, up, out}, stream);
}
void add_in_place(float* x, const float* branch, std::size_t count, cudaStream_t stream) {
  for_each(count, element::Add{x, branch}, stream);
}
void scale_in_place(float* x, float factor, std::size_t count, cudaStream_t stream) {
  for_each(count, element::Scale{x, factor}, stream);
}
void softcap_in_place(float* x, float cap, std::size_t count, cudaStream_t stream) {
  for_each(count, element::Softcap{x, cap}, stream);
}
void fma_in_place(float* acc, float weight, const float* y, std::size_t count,
                  cudaStream_t stream) {
  for_each(count, element::Fma{acc, weight, y}, stream);
}

}  // namespace verbatim::kernels::cuda
