// One text for every backend: the sum of squares is a chain that must not be split (dot() overlaps its blocks), and the
// rest is bound by memory.

#include "kernels/rmsnorm/rmsnorm.hpp"

#include "kernels/matmul/matmul.hpp"

#include <cfloat>
#include <cmath>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

constexpr std::size_t kWorthThreads = std::size_t{1} << 16;

void normalize_row(const RmsnormArgs& args, const float* x, float* y) {
  const float ss = dot(x, x, args.cols);
  const float r = 1.0f / std::sqrt((ss / static_cast<float>(args.cols)) + args.eps);
  if (args.gemma_unit_offset) {
    for (std::size_t i = 0; i < args.cols; ++i) y[i] = (x[i] * r) * (1.0f + args.w[i]);
  } else {
    for (std::size_t i = 0; i < args.cols; ++i) y[i] = (x[i] * r) * args.w[i];
  }
}

}  // namespace

void rmsnorm(Backend, const RmsnormArgs& args, ThreadPool* pool) {
  VERBATIM_CHECK(args.cols > 0);
  const bool small = args.rows * args.cols < kWorthThreads;
  run_tasks(small ? nullptr : pool, args.rows, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      normalize_row(args, args.x + row * args.x_stride, args.y + row * args.y_stride);
    }
  });
}

}  // namespace verbatim::kernels
