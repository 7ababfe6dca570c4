#pragma once
// Fingerprints of activations, after TOPLOC (arXiv 2501.16007): of each 32 output tokens the 128 largest
// values of the last hidden state, as a polynomial over a prime field. They say whether another
// computation had the same activations, or nearly the same. Format: schema/activation-fingerprint.md.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbatim::local_engine {

inline constexpr std::size_t kFingerprintTokens = 32;  ///< output tokens of a chunk
inline constexpr std::size_t kFingerprintTop = 128;    ///< values of a chunk
inline constexpr std::uint32_t kFingerprintPrime = 65497;

/// The largest values of one chunk: of up to 32 rows, one after another. The largest |value| first, of equal ones the
/// lower index first; all values if there are fewer than 128.
struct TopActivations {
  std::vector<std::uint32_t> indices;  ///< row in the chunk * hidden size + element
  std::vector<std::uint16_t> values;   ///< bits of the nearest bfloat16, ties to even
};

/// Takes the last hidden state of one output token after another.
class ActivationCollector {
 public:
  explicit ActivationCollector(std::size_t hidden) : hidden_(hidden) {}
  void add(std::span<const float> hidden);
  /// The chunks; the object is then empty.
  [[nodiscard]] std::vector<TopActivations> finish();

 private:
  std::size_t hidden_;
  std::vector<float> values_;
  std::vector<TopActivations> chunks_;
};

/// One chunk of a fingerprint.
struct FingerprintChunk {
  std::uint16_t modulus = 0;                ///< 0: there is no polynomial
  std::vector<std::uint16_t> coefficients;  ///< ascending powers, each below the prime
  friend bool operator==(const FingerprintChunk&, const FingerprintChunk&) = default;
};

/// Interpolates. The modulus is the largest number up to the prime, and above 2^15, that keeps all indices apart; if
/// there is none, it and the coefficients are 0.
[[nodiscard]] FingerprintChunk encode_chunk(const TopActivations& top);
/// What the polynomial says of the value at `index`.
[[nodiscard]] std::uint16_t decode_value(const FingerprintChunk& chunk, std::uint32_t index);

/// The bytes: of each chunk modulus and coefficients, two bytes each, the high one first.
[[nodiscard]] std::string encode_fingerprint(std::span<const TopActivations> chunks);
/// Of an output of so many tokens.
[[nodiscard]] std::size_t fingerprint_bytes(std::size_t tokens, std::size_t hidden);
/// `invalid_input`: another length than that, a modulus or a coefficient that no encoder writes.
[[nodiscard]] Result<std::vector<FingerprintChunk>> parse_fingerprint(Bytes bytes,
                                                                      std::size_t tokens,
                                                                      std::size_t hidden);

/// TOPLOC's published limits: of 128 values at least 90 agree in sign and exponent (of fewer, as large a share),
/// and of those the mantissas differ by at most 10 in the mean and 8 in the median.
inline constexpr std::size_t kAgreeingExponentsMin = 90;
inline constexpr float kMantissaMeanMax = 10, kMantissaMedianMax = 8;

/// How a recorded fingerprint and other activations agree, by TOPLOC's measure: at the indices of the other's
/// largest values the polynomial is compared with them. Mantissas in units of the last of bfloat16's 7 bits.
struct FingerprintAgreement {
  std::size_t chunks = 0;
  std::size_t exact = 0;     ///< chunks that encode to the same bytes
  std::size_t accepted = 0;  ///< chunks within the limits
  // Of the chunk that agrees least:
  std::size_t values = 0, exponent_mismatches = 0;
  float mantissa_mean = 0, mantissa_median = 0;  ///< infinity when no exponent agrees
};

/// Requires as many chunks in both.
[[nodiscard]] FingerprintAgreement compare_fingerprint(std::span<const FingerprintChunk> recorded,
                                                       std::span<const TopActivations> computed);

}  // namespace verbatim::local_engine
