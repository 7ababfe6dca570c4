#pragma once
// How far honest answers of another engine are from ours: what WITHIN_MARGIN is measured by. Format:
// schema/calibration.md.

#include "replay/foreign.hpp"
#include "replay/proportion.hpp"
#include "schema/canonical_json.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Two limits that an honest record exceeds with probability at most `alpha`: its largest deficit, and its share of
/// tokens that are not the engine's choice.
struct Calibration {
  std::string model, profile, weights_sha256;
  std::size_t records = 0, tokens = 0, differing = 0;
  double alpha = 0.01;
  float threshold = 0;   ///< largest deficit allowed, logit units
  double share_max = 0;  ///< largest share of differing tokens allowed

  /// No kernel's rounding goes as far: the answers were hardly honest ones of these weights.
  [[nodiscard]] bool is_beyond_rounding() const { return threshold > 1 || share_max > 0.2; }
};

/// From honest records. Each limit is the k-th smallest value among the n records, k = ceil((1 - alpha/2)(n + 1)): for
/// records that are exchangeable with these, each is exceeded with probability at most alpha/2 (split conformal
/// prediction; Vovk, Gammerman, Shafer 2005), whatever the distribution. `invalid_input`: fewer than 2/alpha - 1 records.
[[nodiscard]] Result<Calibration> calibrate(const std::vector<ForeignScore>& honest, double alpha);

/// How many tokens of another model, on the average record, until the first deficit beyond the threshold.
struct Detection {
  std::string name;
  std::size_t records = 0, tokens = 0;
  Proportion beyond;          ///< share of tokens with a deficit beyond the threshold
  Proportion records_beyond;  ///< share of records beyond either limit
  /// Tokens after which one is beyond with probability 0.95, if tokens were independent; 0: no token was beyond.
  std::size_t tokens_needed = 0;
};
[[nodiscard]] Detection detect(const Calibration& calibration, std::string name,
                               const std::vector<ForeignScore>& scores);

/// True if the record stays within both limits.
[[nodiscard]] bool within(const Calibration& calibration, float deficit_max, std::size_t differing,
                          std::size_t tokens);

/// Canonical JSON, as it is written to a file and hashed.
[[nodiscard]] std::string calibration_text(const Calibration& calibration);
/// `invalid_input` for anything else.
[[nodiscard]] Result<Calibration> parse_calibration(std::string_view text);

}  // namespace verbatim::replay
