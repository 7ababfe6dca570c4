#include "kernels/rope/rope.hpp"

#include <cfloat>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {

namespace {

/// One head; the elements of a pair are `apart` from each other, and pairs `step`.
[[gnu::always_inline]] inline void rotate_body(float* x, const float* cos, const float* sin,
                                               std::size_t pairs, std::size_t step,
                                               std::size_t apart) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const float x0 = x[i * step];
    const float x1 = x[i * step + apart];
    x[i * step] = __builtin_fmaf(x0, cos[i], -(x1 * sin[i]));
    x[i * step + apart] = __builtin_fmaf(x0, sin[i], x1 * cos[i]);
  }
}

[[gnu::always_inline]] inline void rotate_rows(const RopeTable& table, const RopeArgs& args) {
  const std::size_t pairs = table.pairs();
  for (std::size_t r = 0; r < args.rows; ++r) {
    const float* cos = table.cos(args.positions[r]);
    const float* sin = table.sin(args.positions[r]);
    for (std::size_t h = 0; h < args.heads; ++h) {
      float* x = args.x + r * args.x_stride + h * args.head_dim;
      if (args.pairing == RopePairing::half_split) {
        rotate_body(x, cos, sin, pairs, 1, pairs);
      } else {
        rotate_body(x, cos, sin, pairs, 2, 1);
      }
    }
  }
}

void rotate_portable(const RopeTable& table, const RopeArgs& args) { rotate_rows(table, args); }
[[gnu::target("fma")]] void rotate_fma(const RopeTable& table, const RopeArgs& args) {
  rotate_rows(table, args);
}

}  // namespace

void rope_rotate(Backend backend, const RopeTable& table, const RopeArgs& args) {
  VERBATIM_CHECK(2 * table.pairs() <= args.head_dim);
  for (std::size_t r = 0; r < args.rows; ++r) VERBATIM_CHECK(args.positions[r] < table.positions());
  (backend == Backend::scalar ? rotate_portable : rotate_fma)(table, args);
}

}  // namespace verbatim::kernels
