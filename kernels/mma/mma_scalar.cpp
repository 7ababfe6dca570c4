// The instruction in integers, and the product as the profile writes it: the text that the other versions are compared
// with.

#include "kernels/block.hpp"
#include "kernels/mma/detail.hpp"
#include "kernels/mma/mma.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdlib>
#include <limits>
#include <vector>

static_assert(FLT_EVAL_METHOD == 0);  // no excess precision

namespace verbatim::kernels {
namespace {

constexpr float kLeftTheProfile = std::numeric_limits<float>::quiet_NaN();
constexpr int kFractionBits = 25;  // kept below the largest exponent
constexpr int kExponentMin = -133;
constexpr int kRangeExponentMin = -100;  // of a result that is not zero
constexpr int kSmallestFloat = -149;
constexpr int kFloatFraction = 23, kFloatBias = 127, kFloatExponents = 255;

struct Format {
  int fraction_bits, bias, exponents;  // `exponents`: the biased one of what is not finite
};
constexpr Format kBf16{7, 127, 255}, kF16{10, 15, 31};

/// significand * 2^(exponent - fraction bits)
struct Parts {
  std::int64_t significand;  // with its sign
  int exponent;
  bool finite;
};

Parts parts_of(std::uint32_t sign, int biased, std::int64_t fraction, const Format& format) {
  const std::int64_t hidden = biased == 0 ? 0 : std::int64_t{1} << format.fraction_bits;
  const std::int64_t significand = fraction | hidden;
  return {sign != 0 ? -significand : significand, std::max(biased, 1) - format.bias,
          biased != format.exponents};
}

Parts parts_of(std::uint16_t bits, const Format& format) {
  return parts_of(bits >> 15, (bits >> format.fraction_bits) & format.exponents,
                  bits & ((1 << format.fraction_bits) - 1), format);
}

Parts parts_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return parts_of(bits >> 31, static_cast<int>(bits >> kFloatFraction) & kFloatExponents,
                  bits & ((1u << kFloatFraction) - 1),
                  {kFloatFraction, kFloatBias, kFloatExponents});
}

/// value * 2^-distance, cut toward zero.
std::int64_t cut(std::int64_t value, int distance) {
  if (distance >= 63) return 0;
  const std::int64_t magnitude = std::abs(value) >> distance;
  return value < 0 ? -magnitude : magnitude;
}

/// sum * 2^exponent, cut toward zero to 24 significant bits.
float rounded_toward_zero(std::int64_t sum, int exponent) {
  if (sum == 0) return 0;
  auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int last = kFloatFraction + 1 - static_cast<int>(std::bit_width(magnitude));
  magnitude = last >= 0 ? magnitude << last : magnitude >> -last;
  const int leading = exponent - last + kFloatFraction;  // the exponent of the first bit
  if (leading < kSmallestFloat) return 0;
  if (leading < kRangeExponentMin || leading > kFloatBias) return kLeftTheProfile;
  const auto fraction = static_cast<std::uint32_t>(magnitude) & ((1u << kFloatFraction) - 1);
  const auto biased = static_cast<std::uint32_t>(leading + kFloatBias);
  return std::bit_cast<float>((sum < 0 ? 0x80000000u : 0u) | (biased << kFloatFraction) | fraction);
}

}  // namespace

float mma_block(Dtype dtype, const std::uint16_t* a, const std::uint16_t* b, float c) {
  const Format& format = dtype == Dtype::bf16 ? kBf16 : kF16;
  // 1. The terms, as multiples of 2^(exponent - 25), and their largest exponent.
  std::int64_t terms[kMmaDepth + 1];
  int exponents[kMmaDepth + 1];
  int largest = kExponentMin;
  for (std::size_t i = 0; i < kMmaDepth; ++i) {
    const Parts x = parts_of(a[i], format), w = parts_of(b[i], format);
    if (!x.finite || !w.finite) return kLeftTheProfile;
    terms[i] = x.significand * w.significand * (1 << (kFractionBits - 2 * format.fraction_bits));
    exponents[i] = x.exponent + w.exponent;
    if (terms[i] != 0) largest = std::max(largest, exponents[i]);
  }
  const Parts addend = parts_of(c);
  if (!addend.finite) return kLeftTheProfile;
  if (c != 0 && addend.exponent < kRangeExponentMin) return kLeftTheProfile;
  terms[kMmaDepth] = addend.significand * (1 << (kFractionBits - kFloatFraction));
  exponents[kMmaDepth] = addend.exponent;
  if (c != 0) largest = std::max(largest, addend.exponent);

  // 2. Each cut to a multiple of 2^(largest - 25), and added.
  std::int64_t sum = 0;
  for (std::size_t i = 0; i <= kMmaDepth; ++i) {
    if (terms[i] != 0) sum += cut(terms[i], largest - exponents[i]);
  }
  return rounded_toward_zero(sum, largest - kFractionBits);
}

namespace detail {

namespace {
constexpr std::size_t kStepsOfBlock = kBlock / kMmaDepth;
}  // namespace

float mma_lane(const MmaRange& range, std::size_t row, std::size_t panel, std::size_t lane,
               std::size_t step, float c) {
  std::uint16_t w[kMmaDepth] = {};
  const std::size_t first = step * kMmaDepth;
  for (std::size_t k = first; k < std::min(first + kMmaDepth, range.cols); ++k)
    w[k - first] = range.weights[(panel * range.cols + k) * kPanelRows + lane];
  return mma_block(range.dtype, range.x + row * range.depth + first, w, c);
}

void mma_scalar(const MmaRange& range) {
  const std::size_t steps = range.depth / kMmaDepth;
  for (std::size_t panel = range.begin; panel < range.end; ++panel) {
    const std::size_t lanes = std::min(kPanelRows, range.rows - panel * kPanelRows);
    for (std::size_t row = 0; row < range.m; ++row) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        float t = 0;
        for (std::size_t block = 0; block < steps; block += kStepsOfBlock) {
          float s = 0;
          for (std::size_t step = block; step < std::min(block + kStepsOfBlock, steps); ++step)
            s = mma_lane(range, row, panel, lane, step, s);
          t = t + s;
        }
        const std::size_t column = panel * kPanelRows + lane;
        range.y[row * range.y_stride + column] = range.bias != nullptr ? t + range.bias[column] : t;
      }
    }
  }
}

}  // namespace detail
}  // namespace verbatim::kernels
