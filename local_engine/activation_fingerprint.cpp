#include "local_engine/activation_fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::uint32_t kModulusMin = (1u << 15) + 1;
constexpr unsigned kMantissaBits = 7;

using Field = std::uint32_t;  // below the prime

Field add(Field a, Field b) { return (a + b) % kFingerprintPrime; }
Field sub(Field a, Field b) { return (a + kFingerprintPrime - b) % kFingerprintPrime; }
Field mul(Field a, Field b) { return static_cast<Field>(std::uint64_t{a} * b % kFingerprintPrime); }

/// Of a number that is not 0. From p = (p / a) * a + p % a follows 1 / a = -(p / a) / (p % a).
Field inverse(Field a) {
  static const std::vector<Field> all = [] {
    std::vector<Field> table(kFingerprintPrime, 1);
    for (Field i = 2; i < kFingerprintPrime; ++i)
      table[i] = mul(kFingerprintPrime - kFingerprintPrime / i, table[kFingerprintPrime % i]);
    return table;
  }();
  return all[a];
}

std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t odd = (bits >> 16) & 1u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16);
}

TopActivations largest(std::span<const float> values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const float x = std::abs(values[a]), y = std::abs(values[b]);
    return x > y || (x == y && a < b);
  };
  const auto end =
      order.begin() + static_cast<std::ptrdiff_t>(std::min(kFingerprintTop, order.size()));
  std::partial_sort(order.begin(), end, order.end(), before);
  TopActivations top;
  top.indices.assign(order.begin(), end);
  for (const auto index : top.indices) top.values.push_back(bfloat16_bits(values[index]));
  return top;
}

/// The largest modulus that keeps the indices apart; 0 if none does.
std::uint32_t injective_modulus(const std::vector<std::uint32_t>& indices) {
  std::vector<std::uint32_t> seen(kFingerprintPrime, 0);  // by which modulus last
  for (std::uint32_t modulus = kFingerprintPrime; modulus >= kModulusMin; --modulus) {
    const bool apart = std::all_of(indices.begin(), indices.end(), [&](std::uint32_t index) {
      return std::exchange(seen[index % modulus], modulus) != modulus;
    });
    if (apart) return modulus;
  }
  return 0;
}

struct Agreement {
  std::size_t values, mismatches;
  float mean, median;
};

/// Of one chunk. Without a polynomial nothing agrees.
Agreement agreement(const FingerprintChunk& recorded, const TopActivations& computed) {
  std::vector<int> differences;
  for (std::size_t i = 0; i < computed.indices.size() && recorded.modulus != 0; ++i) {
    const std::uint16_t said = decode_value(recorded, computed.indices[i]);
    const std::uint16_t is = computed.values[i];
    if (said >> kMantissaBits != is >> kMantissaBits) continue;  // sign and exponent
    constexpr std::uint16_t kMantissa = (1u << kMantissaBits) - 1;
    differences.push_back(std::abs(int{said & kMantissa} - int{is & kMantissa}));
  }
  const std::size_t all = computed.indices.size(), count = differences.size();
  if (count == 0)
    return {all, all, std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::infinity()};
  std::sort(differences.begin(), differences.end());
  const int sum = std::accumulate(differences.begin(), differences.end(), 0);
  const int middle = differences[(count - 1) / 2] + differences[count / 2];
  return {all, all - count, static_cast<float>(sum) / static_cast<float>(count),
          static_cast<float>(middle) / 2};
}

bool within_limits(const Agreement& chunk) {
  const std::size_t agreeing = chunk.values - chunk.mismatches;
  return agreeing * kFingerprintTop >= kAgreeingExponentsMin * chunk.values &&
         chunk.mean <= kMantissaMeanMax && chunk.median <= kMantissaMedianMax;
}

Error malformed(std::string what) {
  return {Errc::invalid_input, std::move(what), "activation fingerprint", ""};
}

}  // namespace

void ActivationCollector::add(std::span<const float> hidden) {
  VERBATIM_CHECK(hidden.size() == hidden_);
  values_.insert(values_.end(), hidden.begin(), hidden.end());
  if (values_.size() < kFingerprintTokens * hidden_) return;
  chunks_.push_back(largest(values_));
  values_.clear();
}

std::vector<TopActivations> ActivationCollector::finish() {
  if (!values_.empty()) chunks_.push_back(largest(values_));
  values_.clear();
  return std::exchange(chunks_, {});
}

FingerprintChunk encode_chunk(const TopActivations& top) {
  const std::size_t n = top.indices.size();
  FingerprintChunk chunk;
  chunk.coefficients.assign(n, 0);
  const std::uint32_t modulus = injective_modulus(top.indices);
  if (modulus == 0) return chunk;
  chunk.modulus = static_cast<std::uint16_t>(modulus);
  // 1. Newton's divided differences, in place: d[i] = f[x_0, ..., x_i].
  std::vector<Field> x(n), d(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = top.indices[i] % modulus;
    d[i] = top.values[i] % kFingerprintPrime;  // equal but for NaN
  }
  for (std::size_t order = 1; order < n; ++order) {
    for (std::size_t i = n - 1; i >= order; --i)
      d[i] = mul(sub(d[i], d[i - 1]), inverse(sub(x[i], x[i - order])));
  }
  // 2. To powers of x: p := p * (x - x_i) + d[i], from the last on.
  std::vector<Field> p(n, 0);
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = n - 1; k > 0; --k) p[k] = sub(p[k - 1], mul(p[k], x[i]));
    p[0] = add(sub(0, mul(p[0], x[i])), d[i]);
  }
  for (std::size_t k = 0; k < n; ++k) chunk.coefficients[k] = static_cast<std::uint16_t>(p[k]);
  return chunk;
}

std::uint16_t decode_value(const FingerprintChunk& chunk, std::uint32_t index) {
  if (chunk.modulus == 0) return 0;
  const Field x = index % chunk.modulus;
  Field value = 0;
  for (auto each = chunk.coefficients.rbegin(); each != chunk.coefficients.rend(); ++each)
    value = add(mul(value, x), *each);
  return static_cast<std::uint16_t>(value);
}

std::string encode_fingerprint(std::span<const TopActivations> chunks) {
  std::string bytes;
  const auto put = [&](std::uint16_t value) {
    bytes += static_cast<char>(value >> 8);
    bytes += static_cast<char>(value & 0xffu);
  };
  for (const TopActivations& top : chunks) {
    const FingerprintChunk chunk = encode_chunk(top);
    put(chunk.modulus);
    for (const auto coefficient : chunk.coefficients) put(coefficient);
  }
  return bytes;
}

std::size_t fingerprint_bytes(std::size_t tokens, std::size_t hidden) {
  const auto chunk = [&](std::size_t rows) {
    return 2 + 2 * (hidden >= kFingerprintTop ? kFingerprintTop
                                              : std::min(kFingerprintTop, rows * hidden));
  };
  const std::size_t rest = tokens % kFingerprintTokens;
  return tokens / kFingerprintTokens * chunk(kFingerprintTokens) + (rest == 0 ? 0 : chunk(rest));
}

Result<std::vector<FingerprintChunk>> parse_fingerprint(Bytes bytes, std::size_t tokens,
                                                        std::size_t hidden) {
  // Each chunk has at least 4 bytes, so a count of tokens that is not the record's cannot overflow.
  if (tokens / kFingerprintTokens > bytes.size() || hidden == 0 ||
      fingerprint_bytes(tokens, hidden) != bytes.size())
    return malformed(std::to_string(bytes.size()) + " bytes are not those of " +
                     std::to_string(tokens) + " tokens");
  std::vector<FingerprintChunk> chunks;
  const auto take = [&] {
    const auto value = static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
    bytes = bytes.subspan(2);
    return value;
  };
  while (!bytes.empty()) {
    const std::size_t rows = std::min(kFingerprintTokens, tokens);
    tokens -= rows;
    FingerprintChunk chunk;
    chunk.modulus = take();
    if (chunk.modulus != 0 && (chunk.modulus < kModulusMin || chunk.modulus > kFingerprintPrime))
      return malformed("a modulus of " + std::to_string(chunk.modulus));
    for (std::size_t left = (fingerprint_bytes(rows, hidden) - 2) / 2; left > 0; --left) {
      chunk.coefficients.push_back(take());
      if (chunk.coefficients.back() >= kFingerprintPrime)
        return malformed("a coefficient that is not in the field");
    }
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

FingerprintAgreement compare_fingerprint(std::span<const FingerprintChunk> recorded,
                                         std::span<const TopActivations> computed) {
  VERBATIM_CHECK(recorded.size() == computed.size());
  FingerprintAgreement found;
  found.chunks = recorded.size();
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (encode_chunk(computed[i]) == recorded[i]) ++found.exact;
    const Agreement chunk = agreement(recorded[i], computed[i]);
    if (within_limits(chunk)) ++found.accepted;
    // By the share that does not agree, then by the mantissas.
    const auto worse =
        std::pair(chunk.mismatches * std::max<std::size_t>(found.values, 1), chunk.mean) >
        std::pair(found.exponent_mismatches * std::max<std::size_t>(chunk.values, 1),
                  found.mantissa_mean);
    if (i > 0 && !worse) continue;
    found.values = chunk.values;
    found.exponent_mismatches = chunk.mismatches;
    found.mantissa_mean = chunk.mean;
    found.mantissa_median = chunk.median;
  }
  return found;
}

}  // namespace verbatim::local_engine
