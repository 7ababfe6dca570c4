#pragma once
// Rotary position embedding: the table of cosines and sines, made on the host, and the rotation.

#include "kernels/backend.hpp"
#include "kernels/thread_pool.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace verbatim::kernels {

/// inv[i] = the f32 nearest to theta^(-2i/dim), for i < dim/2. `invalid_input`: dim odd, 0 or above 65,536; theta not
/// finite or below 1 or above 2^80.
[[nodiscard]] Result<std::vector<float>> rope_inverse_frequencies(double theta, std::size_t dim);

/// The scaled kinds of section 3 change the inverse frequencies, in f64, rounded once to f32.
[[nodiscard]] std::vector<float> rope_scale_linear(std::span<const float> inv, double factor);
struct RopeLlama3 {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  double original_max_position = 8192;
};
/// wavelength = 2 pi / inv: beyond original/low: inv / factor; below original/high: inv; between: blended.
[[nodiscard]] std::vector<float> rope_scale_llama3(std::span<const float> inv,
                                                   const RopeLlama3& kind);

struct RopeYarn {
  double factor = 1;  ///< at least 1
  double theta = 10000;
  double original_max_position = 0;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  ///< the range's ends go to whole dimensions: low down, high up
};
/// Of the d/2 frequencies, those below `low` stay, those above `high` are divided by the factor, between them the two are
/// blended: dimension(n) = d ln(original / (2 pi n)) / (2 ln theta); low = max(dimension(beta_fast), 0), high =
/// min(dimension(beta_slow), d - 1), and 0.001 more where they are equal; ramp = (i - low) / (high - low) within 0 and 1;
/// (inv / factor) ramp + inv (1 - ramp).
[[nodiscard]] std::vector<float> rope_scale_yarn(std::span<const float> inv, const RopeYarn& kind);
/// 0.1 ln(factor) + 1: the attention factor of YaRN unless one is configured.
[[nodiscard]] double rope_yarn_attention_factor(double factor);

/// Cosines and sines, correctly rounded, of the angles f64(p) * f64(inv[i]) (exact), times `attention_factor` (YaRN)
/// before the rounding. Immutable; thread-safe.
class RopeTable {
 public:
  RopeTable() = default;
  /// Positions 0..positions-1. `invalid_input`: positions above 2^24, an inverse frequency that is not in (0, 1], or a
  /// factor that is not finite and positive.
  [[nodiscard]] static Result<RopeTable> make(std::span<const float> inv, std::size_t positions,
                                              double attention_factor = 1,
                                              ThreadPool* pool = nullptr);

  [[nodiscard]] std::size_t positions() const { return positions_; }
  [[nodiscard]] std::size_t pairs() const { return pairs_; }  ///< rotated dimensions / 2
  [[nodiscard]] const float* cos(std::size_t position) const {
    return cos_.data() + position * pairs_;
  }
  [[nodiscard]] const float* sin(std::size_t position) const {
    return sin_.data() + position * pairs_;
  }
  /// SHA-256 over all cosines, then all sines, f32 little-endian: recorded, so that a table can be compared.
  [[nodiscard]] Digest sha256() const;

 private:
  std::size_t positions_ = 0, pairs_ = 0;
  std::vector<float> cos_, sin_;  // (positions, pairs)
};

/// Which two elements make a pair.
enum class RopePairing {
  half_split,   ///< i and i + pairs: Hugging Face, "NEOX"
  interleaved,  ///< 2i and 2i + 1: the original, GGUF's "NORM" (llama)
};

/// Rotates the first 2*pairs of each head's `head_dim` elements, in place:
/// y0 = fma(x0, c, -(x1 * s)); y1 = fma(x0, s, x1 * c).
///   shapes  x: (rows, heads, head_dim), rows x_stride floats apart; row r has position positions[r] < table.positions()
struct RopeArgs {
  std::size_t rows = 0, heads = 0, head_dim = 0;
  RopePairing pairing = RopePairing::half_split;
  const std::size_t* positions = nullptr;
  float* x = nullptr;
  std::size_t x_stride = 0;
};
void rope_rotate(Backend backend, const RopeTable& table, const RopeArgs& args);

}  // namespace verbatim::kernels
