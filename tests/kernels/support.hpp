#pragma once
// Inputs and comparisons for the kernels' tests: seeded, and by bits.

#include "kernels/backend.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbatim::kernels::test {

/// A small generator of our own, so that inputs are the same everywhere (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  /// Uniform in [-1, 1), 24 bits.
  float unit() {
    return static_cast<float>(static_cast<std::int32_t>(next() >> 39) - (1 << 24)) * 0x1p-24f;
  }

 private:
  std::uint64_t state_;
};

enum class Kind {
  ordinary,     ///< in [-1, 1)
  adversarial,  ///< signed zeros, subnormals, tiny, large; finite products and sums
  overflowing,  ///< huge values too: infinities and NaN come up
};
inline constexpr Kind kKinds[] = {Kind::ordinary, Kind::adversarial, Kind::overflowing};

inline float random_float(Random& random, Kind kind) {
  if (kind == Kind::ordinary) return random.unit();
  const float x = random.unit();
  switch (random.below(kind == Kind::overflowing ? 8 : 7)) {
    case 0:
      return std::copysign(0.0f, x);
    case 1:
      return x * 0x1p-130f;  // subnormal
    case 2:
      return x * 0x1p-149f;  // the smallest, or a zero
    case 3:                  // NOLINT(bugprone-branch-clone): the next differs by the sign
      return std::ldexp(x, -static_cast<int>(random.below(70)));
    case 4:
      return std::ldexp(x, static_cast<int>(random.below(50)));
    case 7:
      return x * 0x1.fp127f;
    default:
      return x;
  }
}

inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed,
                                        Kind kind = Kind::ordinary) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random_float(random, kind);
  return values;
}

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// The same bits, or both NaN (whose payload the profile leaves open).
inline bool same_bits(float a, float b) {
  return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
}

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    return testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (same_bits(a[i], b[i])) continue;
    return testing::AssertionFailure()
           << "element " << i << ": " << std::hexfloat << a[i] << " (0x" << std::hex
           << bits_of(a[i]) << ") against " << b[i] << " (0x" << bits_of(b[i]) << ")";
  }
  return testing::AssertionSuccess();
}

inline const char* text(Kind kind) {
  return kind == Kind::ordinary      ? "ordinary"
         : kind == Kind::adversarial ? "adversarial"
                                     : "overflowing";
}

}  // namespace verbatim::kernels::test
