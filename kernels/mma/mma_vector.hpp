#pragma once
// The tensor core's products on vectors: lanes run over the outputs of a panel. V is avx2::V or avx512::V.
//
// The largest exponent of a step is found as a power of two: the largest product of the factors' powers, and c's. While it
// is between 2^-75 and 2^100, all is exact in floats: the products that are not cut away entirely, and their multiples by
// 2^25 over that power, whose integer parts are the terms of the sum. No sum below 2^-100 can come up there. What is outside
// goes to mma_block(), lane by lane: rows of zeros, and what is very small or large.

#include "kernels/block.hpp"
#include "kernels/mma/detail.hpp"

#include <cstddef>

namespace verbatim::kernels::detail {

template <class V, Dtype dtype>
struct MmaProduct {
  using F = typename V::F;
  static constexpr std::size_t kStep = 16;                           // k of one instruction
  static constexpr std::size_t kRows = V::kRegisters == 32 ? 4 : 2;  // of x, that share the weights
  static constexpr float kSmallest = dtype == Dtype::bf16 ? 0x1p-126f : 0x1p-14f;

  const MmaRange& range;

  /// One block of k of one panel, in floats: (k, 16).
  struct Weights {
    alignas(64) float values[kBlock * kPanelRows];
    alignas(64) float powers[kBlock * kPanelRows];
    alignas(64) float finite[kPanelRows];  // NaN in the lanes where a weight of the panel is not
  };

  [[gnu::noinline]] void decode(std::size_t panel, std::size_t block, std::size_t steps,
                                Weights& out) const {
    const std::uint16_t* stored = range.weights + (panel * range.cols + block) * kPanelRows;
    const std::size_t stored_k =
        range.cols - block < steps * kStep ? range.cols - block : steps * kStep;
    for (std::size_t v = 0; v < kPanelRows; v += V::kLanes) {
      F finite = V::load(out.finite + v);
      for (std::size_t k = 0; k < steps * kStep; ++k) {
        F value = V::zero(), power = V::zero();
        if (k < stored_k) {
          value = V::template weights<dtype>(stored + k * kPanelRows + v);
          power = V::if_equal(value, V::zero(), V::zero(),
                              V::max(V::power_of_two(value), V::set1(kSmallest)));
          finite = V::fma(value, V::zero(), finite);
        }
        V::store(out.values + k * kPanelRows + v, value);
        V::store(out.powers + k * kPanelRows + v, power);
      }
      V::store(out.finite + v, finite);
    }
  }

  /// The lanes of `outside` again, one by one: c as it was before the step.
  [[gnu::noinline]] static F by_lane(const MmaRange& range, std::size_t row, std::size_t panel,
                                     std::size_t lane, std::size_t step, std::uint32_t outside, F c,
                                     F done) {
    alignas(64) float before[V::kLanes];
    alignas(64) float after[V::kLanes];
    V::store(before, c);
    V::store(after, done);
    for (std::size_t i = 0; i < V::kLanes; ++i) {
      if ((outside >> i & 1) == 0 || panel * kPanelRows + lane + i >= range.rows) continue;
      after[i] = mma_lane(range, row, panel, lane + i, step, before[i]);
    }
    return V::load(after);
  }

  /// `rows` rows from `row` on, the lanes from `lane` on of a panel, over one block of k: the chain of its steps.
  template <std::size_t rows>
  [[gnu::always_inline]] void chain(const Weights& w, std::size_t row, std::size_t panel,
                                    std::size_t lane, std::size_t block, std::size_t steps,
                                    F (&c)[rows]) const {
    for (std::size_t r = 0; r < rows; ++r) c[r] = V::zero();
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t x_at = row * range.depth + block + step * kStep;
      const std::size_t w_at = step * kStep * kPanelRows + lane;

      // 1. The largest power of two.
      F largest[rows];
      for (std::size_t r = 0; r < rows; ++r) largest[r] = V::zero();
      for (std::size_t k = 0; k < kStep; ++k) {
        const F power = V::load(w.powers + w_at + k * kPanelRows);
        for (std::size_t r = 0; r < rows; ++r) {
          const F x = V::set1(range.powers[x_at + r * range.depth + k]);
          largest[r] = V::max(V::mul(x, power), largest[r]);
        }
      }
      F scale[rows];
      for (std::size_t r = 0; r < rows; ++r) {
        largest[r] = V::max(V::power_of_two(c[r]), largest[r]);
        scale[r] = V::template power_over<25>(largest[r]);
      }

      // 2. The terms, cut toward zero, and their sum: sixteen of them stay below 2^31.
      typename V::I sum[rows];
      for (std::size_t r = 0; r < rows; ++r) sum[r] = V::no_ints();
      for (std::size_t k = 0; k < kStep; ++k) {
        const F value = V::load(w.values + w_at + k * kPanelRows);
        for (std::size_t r = 0; r < rows; ++r) {
          const F x = V::set1(range.values[x_at + r * range.depth + k]);
          sum[r] = V::add_ints(sum[r], V::cut_to_ints(V::mul(V::mul(x, value), scale[r])));
        }
      }

      // 3. With c, exact in f64; cut to 24 bits.
      for (std::size_t r = 0; r < rows; ++r) {
        const typename V::I addend = V::cut_to_ints(V::mul(c[r], scale[r]));
        const F total = V::join(cut_to_float(V::addd(V::low_ints(sum[r]), V::low_ints(addend))),
                                cut_to_float(V::addd(V::high_ints(sum[r]), V::high_ints(addend))));
        const F next = V::mul(total, V::mul(largest[r], V::set1(0x1p-25f)));
        const std::uint32_t outside = V::outside(largest[r], 0x1p-75f, 0x1p100f);
        if (outside == 0) {
          c[r] = next;
        } else {
          c[r] = by_lane(range, row + r, panel, lane, block / kStep + step, outside, c[r], next);
        }
      }
    }
  }

  /// Toward zero, to the bits that a float holds.
  [[gnu::always_inline]] static inline typename V::D cut_to_float(typename V::D a) {
    return V::from_bits(V::template shift_left<29>(V::template shift_right<29>(V::bits(a))));
  }

  /// One block of k of one panel, for the rows [row, range.m), `rows` at a time.
  template <std::size_t rows>
  [[gnu::noinline]] void rows_of_block(const Weights& w, std::size_t row, std::size_t panel,
                                       std::size_t block, std::size_t steps) const {
    for (; row + rows <= range.m; row += rows) {
      for (std::size_t lane = 0; lane < kPanelRows; lane += V::kLanes) {
        const std::size_t column = panel * kPanelRows + lane;
        if (column >= range.rows) break;
        F s[rows];
        chain<rows>(w, row, panel, lane, block, steps, s);
        const std::size_t left = range.rows - column;
        for (std::size_t r = 0; r < rows; ++r) {
          float* y = range.y + (row + r) * range.y_stride + column;
          if (left >= V::kLanes) {
            V::store(y, V::add(block == 0 ? V::zero() : V::load(y), s[r]));
          } else {
            V::store_first(y, left, V::add(block == 0 ? V::zero() : V::load_first(y, left), s[r]));
          }
        }
      }
    }
    if constexpr (rows > 1) {
      if (row < range.m) rows_of_block<rows / 2>(w, row, panel, block, steps);
    }
  }

  /// What is the same for all k: no outputs without an x or a w that are finite; the bias.
  void finish(const Weights& w, std::size_t panel) const {
    const float nan = __builtin_nanf("");
    for (std::size_t row = 0; row < range.m; ++row) {
      float* y = range.y + row * range.y_stride;
      for (std::size_t lane = 0; lane < kPanelRows; ++lane) {
        const std::size_t n = panel * kPanelRows + lane;
        if (n >= range.rows) break;
        if (range.cols == 0) y[n] = 0;
        if (range.finite[row] == 0 || w.finite[lane] != w.finite[lane]) y[n] = nan;
        if (range.bias != nullptr) y[n] = y[n] + range.bias[n];
      }
    }
  }

  void run() const {
    Weights w;
    for (std::size_t panel = range.begin; panel < range.end; ++panel) {
      for (float& lane : w.finite) lane = 0;
      for (std::size_t block = 0; block < range.depth; block += kBlock) {
        const std::size_t left = range.depth - block;
        const std::size_t steps = (left < kBlock ? left : kBlock) / kStep;
        decode(panel, block, steps, w);
        rows_of_block<kRows>(w, 0, panel, block, steps);
      }
      finish(w, panel);
    }
  }
};

template <class V>
[[gnu::always_inline]] static inline void mma_vector(const MmaRange& range) {
  if (range.dtype == Dtype::bf16) return MmaProduct<V, Dtype::bf16>{range}.run();
  return MmaProduct<V, Dtype::f16>{range}.run();
}

}  // namespace verbatim::kernels::detail
