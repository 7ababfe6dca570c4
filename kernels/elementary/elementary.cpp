#include "kernels/elementary/elementary.hpp"

#include "kernels/elementary/detail.hpp"

namespace verbatim::kernels {

namespace {

using detail::Function;

void apply(Backend backend, Function f, const float* in, std::size_t count, float* out) {
  switch (backend) {
    case Backend::scalar:
      return detail::apply_scalar(f, in, count, out);
    case Backend::avx2:
      return detail::apply_avx2(f, in, count, out);
    case Backend::avx512:
      return detail::apply_avx512(f, in, count, out);
  }
}

}  // namespace

void exp_f32(Backend backend, const float* in, std::size_t count, float* out) {
  apply(backend, Function::exp, in, count, out);
}
void log_f32(Backend backend, const float* in, std::size_t count, float* out) {
  apply(backend, Function::log, in, count, out);
}
void tanh_f32(Backend backend, const float* in, std::size_t count, float* out) {
  apply(backend, Function::tanh, in, count, out);
}
void silu_f32(Backend backend, const float* in, std::size_t count, float* out) {
  apply(backend, Function::silu, in, count, out);
}
void gelu_tanh_f32(Backend backend, const float* in, std::size_t count, float* out) {
  apply(backend, Function::gelu_tanh, in, count, out);
}

}  // namespace verbatim::kernels
