#include "replay/foreign_verdict.hpp"

#include "replay/compare.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

/// What deficits that rounding does not explain look like.
std::string hypothesis(const ForeignScore& score, float threshold) {
  std::size_t first = score.deficits.size(), last = 0, beyond = 0;
  for (std::size_t i = 0; i < score.deficits.size(); ++i) {
    if (score.deficits[i] <= threshold) continue;
    first = std::min(first, i);
    last = i;
    ++beyond;
  }
  if (beyond == 0) return "more tokens than honest rounding flips are not the engine's choice";
  const std::string how_many = std::to_string(beyond) + " of " +
                               std::to_string(score.deficits.size()) +
                               " tokens are beyond the threshold";
  // An edit is in one place, and the text before and after it is the model's own.
  constexpr std::size_t kEditTokensMax = 8, kTokensEnough = 24;
  if (last - first < kEditTokensMax && score.deficits.size() >= kTokensEnough) {
    return how_many + ", all in one place: an edited text, or one unlucky near tie";
  }
  return how_many + ": other weights, another prompt or template, or sampling at a temperature";
}

/// The token that the verdict speaks of: of those that are not the engine's choice the first beyond the threshold, or, if
/// none is, the one with the largest deficit.
std::size_t telling_token(const ForeignScore& score, float threshold) {
  std::optional<std::size_t> largest;
  for (std::size_t i = 0; i < score.deficits.size(); ++i) {
    if (score.result.tokens[i].chosen) continue;
    if (score.deficits[i] > threshold) return i;
    if (!largest || score.deficits[i] > score.deficits[*largest]) largest = i;
  }
  return largest.value_or(0);
}

}  // namespace

void judge_foreign(const ForeignScore& score, const local_engine::Engine& engine,
                   const Calibration* calibration, Verdict& verdict) {
  keep_trace(score.result, verdict);
  verdict.tokens += score.deficits.size();
  verdict.differing = score.differing;
  if (score.differing == 0) {
    verdict.kind = VerdictKind::token_exact;
    return;
  }
  const std::string differing =
      std::to_string(score.differing) + " of " + std::to_string(score.deficits.size()) + " tokens ";
  const float threshold = calibration == nullptr ? 0 : calibration->threshold;
  if (calibration == nullptr) {
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "token";
    verdict.detail = differing +
                     "are not the engine's choice, and no calibration says how many honest "
                     "rounding flips: see `verbatim replay calibrate`";
  } else if (within(*calibration, score.deficit_max(), score.differing, score.deficits.size())) {
    verdict.kind = VerdictKind::within_margin;
    verdict.reason = "rounding";
    verdict.detail = differing + "are near ties that honest rounding flips";
  } else {
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "token";
    verdict.detail = hypothesis(score, threshold);
  }
  const std::size_t at = telling_token(score, threshold);
  verdict.position = at;
  verdict.expected = score.output_ids[at];
  verdict.got = score.result.tokens[at].best;
  verdict.margin = score.result.tokens[at].margin;
  verdict.deficit = score.deficits[at];
  const std::vector<local_engine::TokenId> before(
      score.output_ids.begin(), score.output_ids.begin() + static_cast<std::ptrdiff_t>(at));
  verdict.character = engine.tokenizer()->decode(before, true).size();
  name_tokens(engine, verdict);
}

}  // namespace verbatim::replay
