#include "kernels/cuda/launch.cuh"
#include "kernels/elementary/elementary_cuda.cuh"
#include "kernels/elementwise/elementwise_cuda.hpp"

namespace verbatim::kernels::cuda {

namespace {

struct Add {
  float* x;
  const float* branch;
  __device__ void operator()(std::size_t i) const { x[i] = rn::add(x[i], branch[i]); }
};
struct Scale {
  float* x;
  float factor;
  __device__ void operator()(std::size_t i) const { x[i] = rn::mul(x[i], factor); }
};
struct Softcap {
  float* x;
  float cap;
  __device__ void operator()(std::size_t i) const { x[i] = softcap(x[i], cap); }
};
struct Fma {
  float* acc;
  float weight;
  const float* y;
  __device__ void operator()(std::size_t i) const { acc[i] = rn::fma(weight, y[i], acc[i]); }
};
struct Exp {
  const float* in;
  float* out;
  __device__ void operator()(std::size_t i) const { out[i] = exp(in[i]); }
};
struct Log {
  const float* in;
  float* out;
  __device__ void operator()(std::size_t i) const { out[i] = log(in[i]); }
};
struct Tanh {
  const float* in;
  float* out;
  __device__ void operator()(std::size_t i) const { out[i] = tanh(in[i]); }
};

}  // namespace

void add_in_place(float* x, const float* branch, std::size_t count, cudaStream_t stream) {
  for_each(count, Add{x, branch}, stream);
}
void scale_in_place(float* x, float factor, std::size_t count, cudaStream_t stream) {
  for_each(count, Scale{x, factor}, stream);
}
void softcap_in_place(float* x, float cap, std::size_t count, cudaStream_t stream) {
  for_each(count, Softcap{x, cap}, stream);
}
void fma_in_place(float* acc, float weight, const float* y, std::size_t count,
                  cudaStream_t stream) {
  for_each(count, Fma{acc, weight, y}, stream);
}
void exp_f32(const float* in, std::size_t count, float* out, cudaStream_t stream) {
  for_each(count, Exp{in, out}, stream);
}
void log_f32(const float* in, std::size_t count, float* out, cudaStream_t stream) {
  for_each(count, Log{in, out}, stream);
}
void tanh_f32(const float* in, std::size_t count, float* out, cudaStream_t stream) {
  for_each(count, Tanh{in, out}, stream);
}

}  // namespace verbatim::kernels::cuda
