#pragma once
// Quantises rows as GGUF files hold them: the plainest way that fills each block's fields. What the
// blocks are worth is for the kernels to say; this only makes files.

#include "kernels/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbatim::test {

/// A quantised format and its number and name in GGUF files.
struct QuantisedFormat {
  kernels::Dtype dtype;
  std::uint32_t number;
  std::string name;
};
inline const std::vector<QuantisedFormat>& quantised_formats() {
  using kernels::Dtype;
  static const std::vector<QuantisedFormat> all{
      {Dtype::q8_0, 8, "Q8_0"},  {Dtype::q4_0, 2, "Q4_0"}, {Dtype::q4_1, 3, "Q4_1"},
      {Dtype::q5_0, 6, "Q5_0"},  {Dtype::q5_1, 7, "Q5_1"}, {Dtype::q4_k, 12, "Q4_K"},
      {Dtype::q5_k, 13, "Q5_K"}, {Dtype::q6_k, 14, "Q6_K"}};
  return all;
}

class Quantiser {
 public:
  explicit Quantiser(kernels::Dtype dtype) : dtype_(dtype) {}

  std::string bytes(std::span<const float> values) const {
    const std::size_t elements = kernels::block_layout(dtype_).elements;
    std::string out;
    for (std::size_t at = 0; at < values.size(); at += elements)
      out += block(values.subspan(at, elements));
    return out;
  }

 private:
  using Values = std::span<const float>;
  using Numbers = std::vector<int>;

  static std::string half(float value) {
    const auto bits = kernels::f32_to_f16(value);
    return {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
  }
  static float rounded(float value) { return kernels::f16_to_f32(kernels::f32_to_f16(value)); }
  static float size_of(Values x) {
    float size = 0;
    for (const float value : x) size = std::max(size, std::abs(value));
    return size;
  }
  /// (x + shift) / scale, rounded, within low to high.
  static Numbers numbers(Values x, float shift, float scale, int low, int high) {
    Numbers out;
    for (const float value : x) {
      const float q = scale == 0 ? 0 : std::round((value + shift) / scale);
      out.push_back(static_cast<int>(std::clamp(q, float(low), float(high))));
    }
    return out;
  }
  /// Low halves of the first half of the numbers, high halves of the second, for each `run` of them.
  static std::string nibbles(const Numbers& n, std::size_t run) {
    std::string out;
    for (std::size_t at = 0; at < n.size(); at += run)
      for (std::size_t i = 0; i < run / 2; ++i)
        out += static_cast<char>((n[at + i] & 15) | (n[at + run / 2 + i] & 15) << 4);
    return out;
  }

  std::string block(Values x) const {
    using kernels::Dtype;
    switch (dtype_) {
      case Dtype::q8_0: {
        const float d = rounded(size_of(x) / 127);
        std::string out = half(d);
        for (const int q : numbers(x, 0, d, -127, 127)) out += static_cast<char>(q);
        return out;
      }
      case Dtype::q4_0:
      case Dtype::q5_0:
        return symmetric(x, dtype_ == Dtype::q5_0 ? 16 : 8);
      case Dtype::q4_1:
      case Dtype::q5_1:
        return with_minimum(x, dtype_ == Dtype::q5_1 ? 31 : 15);
      case Dtype::q6_k:
        return q6_k(x);
      default:
        return k_quant(x, dtype_ == Dtype::q5_k ? 31 : 15);
    }
  }
  static std::string fifth_bits(const Numbers& n) {
    std::string out(4, '\0');
    for (std::size_t e = 0; e < 32; ++e)
      out[e / 8] = static_cast<char>(out[e / 8] | (n[e] >> 4 & 1) << (e % 8));
    return out;
  }
  static std::string symmetric(Values x, int middle) {
    const float d = rounded(size_of(x) / float(middle - 1));
    Numbers n = numbers(x, 0, d, -middle, middle - 1);
    for (int& each : n) each += middle;
    return half(d) + (middle == 16 ? fifth_bits(n) : "") + nibbles(n, 32);
  }
  static std::string with_minimum(Values x, int most) {
    const float m = rounded(*std::min_element(x.begin(), x.end()));
    const float d = rounded((*std::max_element(x.begin(), x.end()) - m) / float(most));
    const Numbers n = numbers(x, -m, d, 0, most);
    return half(d) + half(m) + (most == 31 ? fifth_bits(n) : "") + nibbles(n, 32);
  }
  static std::string k_quant(Values x, int most) {
    std::vector<float> scale, minimum;
    for (std::size_t j = 0; j < 8; ++j) {
      const Values part = x.subspan(32 * j, 32);
      minimum.push_back(std::max(0.0f, -*std::min_element(part.begin(), part.end())));
      const float top = *std::max_element(part.begin(), part.end());
      scale.push_back(std::max(0.0f, (top + minimum.back()) / float(most)));
    }
    const float d = rounded(size_of(scale) / 63), dmin = rounded(size_of(minimum) / 63);
    const Numbers sc = numbers(scale, 0, d, 0, 63), mn = numbers(minimum, 0, dmin, 0, 63);
    std::string packed(12, '\0');
    for (std::size_t j = 0; j < 4; ++j) {
      packed[j] = static_cast<char>(sc[j] | sc[j + 4] >> 4 << 6);
      packed[j + 4] = static_cast<char>(mn[j] | mn[j + 4] >> 4 << 6);
      packed[j + 8] = static_cast<char>((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
    Numbers n;
    std::string high(32, '\0');
    for (std::size_t j = 0; j < 8; ++j) {
      const auto part =
          numbers(x.subspan(32 * j, 32), dmin * float(mn[j]), d * float(sc[j]), 0, most);
      n.insert(n.end(), part.begin(), part.end());
      for (std::size_t i = 0; i < 32; ++i)
        high[i] = static_cast<char>(high[i] | (part[i] >> 4 & 1) << j);
    }
    return half(d) + half(dmin) + packed + (most == 31 ? high : "") + nibbles(n, 64);
  }
  static std::string q6_k(Values x) {
    std::vector<float> scale;
    for (std::size_t j = 0; j < 16; ++j) scale.push_back(size_of(x.subspan(16 * j, 16)) / 31);
    const float d = rounded(size_of(scale) / 127);
    const Numbers sc = numbers(scale, 0, d, -127, 127);
    Numbers n;
    for (std::size_t j = 0; j < 16; ++j) {
      for (const int q : numbers(x.subspan(16 * j, 16), 0, d * float(sc[j]), -32, 31))
        n.push_back(q + 32);
    }
    std::string low(128, '\0'), high(64, '\0'), scales;
    for (std::size_t e = 0; e < 256; ++e) {
      const std::size_t side = e / 128, within = e % 128;
      char& two = low[64 * side + within % 64];
      two = static_cast<char>(two | (n[e] & 15) << (within < 64 ? 0 : 4));
      char& four = high[32 * side + within % 32];
      four = static_cast<char>(four | n[e] >> 4 << (within / 32 * 2));
    }
    for (const int s : sc) scales += static_cast<char>(s);
    return low + high + scales + half(d);
  }

  kernels::Dtype dtype_;
};

}  // namespace verbatim::test
