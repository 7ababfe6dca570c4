// Tables by our own arithmetic: f64 with a rounding test, double-double where that leaves the rounding open.

#include "kernels/elementary/double_double.hpp"
#include "kernels/rope/rope.hpp"
#include "schema/bytes.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace verbatim::kernels {

namespace {

// Bound of the relative error of the f64 sines and cosines below: a few roundings of 2^-53, with a margin of 4. Near a
// zero of either function the reduced angle itself is exact to 2^-105.
constexpr double kF64Error = 0x1p-49;
constexpr double kPi = 0x1.921fb54442d18p+1;

struct Pair {
  double cos, sin;
};

/// Of r.hi + r.lo, |r| <= 0.786, by Taylor series: the first terms left out are below 2^-54.
Pair series(dd::Dd r) {
  const double x = r.hi;
  const double x2 = x * x;
  double s = 0, c = 0;
  constexpr double kSin[] = {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                             -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
  constexpr double kCos[] = {
      1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
      1.0 / 40320,          -1.0 / 720,         1.0 / 24};
  for (const double a : kSin) s = s * x2 + a;
  for (const double a : kCos) c = c * x2 + a;
  const double cos = (1 - 0.5 * x2) + x2 * x2 * c;
  const double sin = x + x * x2 * s;
  return {cos - r.lo * sin, sin + r.lo * cos};
}

/// One of the two functions, +-sin or +-cos of the reduced angle, as the quadrant says.
template <class T>
T choose(int quadrant, bool want_cos, const T& cos, const T& sin) {
  const bool is_cos = want_cos == (quadrant % 2 == 0);
  const T value = is_cos ? cos : sin;
  const bool negative = want_cos ? quadrant == 1 || quadrant == 2 : quadrant >= 2;
  return negative ? -value : value;
}

bool decided(double y, float& out) {
  const auto low = static_cast<float>(y - std::fabs(y) * kF64Error);
  const auto high = static_cast<float>(y + std::fabs(y) * kF64Error);
  out = low;
  return low == high;
}

float exact(const dd::Reduced& reduced, bool want_cos, double factor) {
  const dd::SinCos both = dd::sin_cos(reduced.r);
  return dd::to_f32(choose(reduced.quadrant, want_cos, both.cos, both.sin) * factor);
}

void table_entry(double angle, double factor, float& cos, float& sin) {
  if (angle == 0) {
    cos = static_cast<float>(factor);
    sin = 0;
    return;
  }
  const dd::Reduced reduced = dd::reduce_by_half_pi(angle);
  const Pair near = series(reduced.r);
  if (!decided(choose(reduced.quadrant, true, near.cos, near.sin) * factor, cos)) {
    cos = exact(reduced, true, factor);
  }
  if (!decided(choose(reduced.quadrant, false, near.cos, near.sin) * factor, sin)) {
    sin = exact(reduced, false, factor);
  }
}

Error invalid(std::string what, const char* field) {
  return Error{Errc::invalid_input, std::move(what), field, ""};
}

}  // namespace

Result<std::vector<float>> rope_inverse_frequencies(double theta, std::size_t dim) {
  if (dim == 0 || dim % 2 != 0 || dim > 65536) {
    return invalid("rotated dimension " + std::to_string(dim) + " is not even and in 2..65536",
                   "dim");
  }
  if (!(theta >= 1 && theta <= 0x1p80)) return invalid("rope theta is not in 1..2^80", "theta");
  const dd::Dd log_theta = dd::log(theta);
  std::vector<float> inv(dim / 2);
  for (std::size_t i = 0; i < inv.size(); ++i) {
    const dd::Dd exponent =
        dd::Dd{-2.0 * static_cast<double>(i), 0} / dd::Dd{static_cast<double>(dim), 0};
    inv[i] = dd::to_f32(dd::exp(log_theta * exponent));
  }
  return inv;
}

std::vector<float> rope_scale_linear(std::span<const float> inv, double factor) {
  std::vector<float> scaled;
  for (const float f : inv) scaled.push_back(static_cast<float>(static_cast<double>(f) / factor));
  return scaled;
}

std::vector<float> rope_scale_llama3(std::span<const float> inv, const RopeLlama3& kind) {
  const double low_wavelength = kind.original_max_position / kind.low_freq_factor;
  const double high_wavelength = kind.original_max_position / kind.high_freq_factor;
  std::vector<float> scaled;
  for (const float f : inv) {
    const double frequency = f;
    const double wavelength = 2 * kPi / frequency;
    double value = frequency;
    if (wavelength > low_wavelength) {
      value = frequency / kind.factor;
    } else if (wavelength >= high_wavelength) {
      const double smooth = (kind.original_max_position / wavelength - kind.low_freq_factor) /
                            (kind.high_freq_factor - kind.low_freq_factor);
      value = (1 - smooth) * (frequency / kind.factor) + smooth * frequency;
    }
    scaled.push_back(static_cast<float>(value));
  }
  return scaled;
}

std::vector<float> rope_scale_yarn(std::span<const float> inv, const RopeYarn& kind) {
  const auto log = [](double x) { return dd::log(x).hi; };  // the same everywhere, unlike libm's
  const double d = 2 * static_cast<double>(inv.size());
  const auto dimension = [&](double rotations) {
    return d * log(kind.original_max_position / (2 * kPi * rotations)) / (2 * log(kind.theta));
  };
  double low = dimension(kind.beta_fast), high = dimension(kind.beta_slow);
  if (kind.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = low > 0 ? low : 0;
  high = high < d - 1 ? high : d - 1;
  if (low == high) high = high + 0.001;
  std::vector<float> scaled;
  for (std::size_t i = 0; i < inv.size(); ++i) {
    const double frequency = inv[i];
    double ramp = (static_cast<double>(i) - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    scaled.push_back(static_cast<float>((frequency / kind.factor) * ramp + frequency * (1 - ramp)));
  }
  return scaled;
}

double rope_yarn_attention_factor(double factor) {
  return factor <= 1 ? 1 : 0.1 * dd::log(factor).hi + 1;
}

Result<RopeTable> RopeTable::make(std::span<const float> inv, std::size_t positions,
                                  double attention_factor, ThreadPool* pool) {
  if (positions > (std::size_t{1} << 24)) return invalid("more than 2^24 positions", "positions");
  if (!(attention_factor > 0x1p-40 && attention_factor < 0x1p40)) {
    return invalid("attention factor is not positive and finite", "attention_factor");
  }
  for (const float f : inv) {
    if (!(f > 0 && f <= 1)) return invalid("an inverse frequency is not in (0, 1]", "inv");
  }
  RopeTable table;
  table.positions_ = positions;
  table.pairs_ = inv.size();
  table.cos_.resize(positions * inv.size());
  table.sin_.resize(positions * inv.size());
  run_tasks(pool, positions, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      for (std::size_t i = 0; i < inv.size(); ++i) {
        const double angle = static_cast<double>(p) * static_cast<double>(inv[i]);
        const std::size_t at = p * inv.size() + i;
        table_entry(angle, attention_factor, table.cos_[at], table.sin_[at]);
      }
    }
  });
  return table;
}

Digest RopeTable::sha256() const {
  const auto bytes = [](const std::vector<float>& values) {
    return Bytes(reinterpret_cast<const std::uint8_t*>(values.data()),
                 values.size() * sizeof(float));
  };
  return verbatim::sha256({bytes(cos_), bytes(sin_)});
}

}  // namespace verbatim::kernels
