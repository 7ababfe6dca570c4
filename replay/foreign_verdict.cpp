#include "replay/foreign_verdict.hpp"

#include "replay/compare.hpp"

#include <algorithm>
#include <cmath>

namespace verbatim::replay {

namespace {

using Hypotheses = std::vector<std::string>;

/// The tokens beyond the threshold.
struct Beyond {
  std::size_t count = 0, first = 0, last = 0;
  float largest = 0;
};

Beyond beyond(const ForeignScore& score, float threshold) {
  Beyond found;
  for (std::size_t i = 0; i < score.deficits.size(); ++i) {
    if (score.result.tokens[i].chosen || score.deficits[i] <= threshold) continue;
    if (found.count++ == 0) found.first = i;
    found.last = i;
    found.largest = std::max(found.largest, score.deficits[i]);
  }
  return found;
}

/// The model's own text up to one place, and then not: would other weights, another prompt or other sampling, which
/// show at some rate from the beginning, spare so many tokens? The rate is that behind the first.
bool begins_late(const Beyond& found, std::size_t tokens) {
  constexpr double kUnlikely = 0.01;
  const std::size_t behind = tokens - found.first - 1;
  if (behind == 0) return false;
  const double rate = static_cast<double>(found.count - 1) / static_cast<double>(behind);
  return std::pow(1 - rate, static_cast<double>(found.first)) < kUnlikely;
}

/// What deficits that rounding does not explain look like, likeliest first. Where they stand tells which is likely, and
/// excludes no other weights: an answer that was learnt by heart is the same under many.
Hypotheses hypotheses(const ForeignScore& score, float threshold) {
  constexpr std::size_t kEditTokensMax = 8, kTokensEnough = 24;
  constexpr float kNearTie = 10;  // thresholds: an edited word is further off
  const std::size_t tokens = score.deficits.size();
  const Beyond found = beyond(score, threshold);
  if (found.count == 0) return {"weights"};
  if (score.ended && found.count == 1 && found.first == tokens - 1) return {"truncated", "weights"};
  const bool in_one_place = found.last - found.first < kEditTokensMax && tokens >= kTokensEnough;
  if (in_one_place && found.count == 1 && threshold > 0 && found.largest <= kNearTie * threshold)
    return {"rounding", "edited", "weights"};
  // The first words answer the question; those after them follow from the first.
  if (in_one_place && found.first < kEditTokensMax) return {"prompt", "edited", "weights"};
  if (in_one_place || begins_late(found, tokens))
    return {"edited", "weights", "prompt", "sampling"};
  return {"weights", "prompt", "sampling", "edited"};
}

/// No kernel's rounding goes as far as this, in logit units.
constexpr float kNoTie = 1;

/// Nobody has said how far rounding goes here.
Hypotheses uncalibrated_hypotheses(const ForeignScore& score) {
  constexpr float kNearTie = 0.1F;
  Hypotheses all = hypotheses(score, 0);
  const float largest = beyond(score, 0).largest;
  if (all.front() == "truncated" || largest > kNoTie) return all;
  all.insert(largest <= kNearTie ? all.begin() : all.end(), "rounding");
  return all;
}

/// A calibration is asked for where it could change the verdict.
std::string uncalibrated_text(const ForeignScore& score, const std::string& differing,
                              const std::string& why_none) {
  const float largest = beyond(score, 0).largest;
  std::string text =
      differing + "are not the engine's choice, by up to " + decimal(largest) + " logit units";
  if (largest > kNoTie) {
    text += ", which no rounding explains";
  } else if (why_none.empty()) {
    text +=
        ", and no calibration says how many honest rounding flips: see `verbatim replay "
        "calibrate`";
  }
  return why_none.empty() ? text : text + "; " + why_none;
}

std::string diverged_text(const ForeignScore& score, float threshold, const Hypotheses& all) {
  const Beyond found = beyond(score, threshold);
  const std::string how_many =
      found.count == 0
          ? "more tokens than honest rounding flips are not the engine's choice"
          : std::to_string(found.count) + " of " + std::to_string(score.deficits.size()) +
                " tokens are beyond the threshold, the first at token " +
                std::to_string(found.first);
  return how_many + ": " + hypotheses_text(all);
}

/// Of an answer whose end nothing shows to be one: it says that its limit ended it, long before the limit, or names an end
/// that is no text's. Whatever else is said of it.
void note_missing_end(const ForeignScore& score, Verdict& verdict) {
  std::string note;
  if (score.limit_not_reached) {
    note = "it says that its limit of " + std::to_string(*score.limit_not_reached) +
           " tokens ended it, at about " + std::to_string(score.output_ids.size()) +
           ": cut short, or its engine has a short context";
  } else if (score.unknown_end) {
    note = "it names '" + score.unknown_end->substr(0, 64) +
           "' as its end, which tells of no text whether it is whole: perhaps cut short";
  } else {
    return;
  }
  verdict.hypotheses.insert(verdict.hypotheses.begin(), "truncated");
  verdict.detail += (verdict.detail.empty() ? "" : "; ") + note;
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
                   const Calibration* calibration, const std::string& why_none, Verdict& verdict) {
  keep_trace(score.result, verdict);
  verdict.tokens += score.deficits.size();
  verdict.differing = score.differing;
  const bool by_rounding =
      score.differing > 0 && calibration != nullptr &&
      within(*calibration, score.deficit_max(), score.differing, score.deficits.size());
  if (score.limit_exceeded && (score.differing == 0 || by_rounding)) {
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "length";
    verdict.hypotheses = {"edited", "prompt"};
    verdict.detail =
        std::string(by_rounding ? "rounding explains every token that is not" : "every token is") +
        " the engine's choice, and there are " + std::to_string(score.output_ids.size()) +
        " of them, where the request allows " + std::to_string(*score.limit_exceeded);
    return;
  }
  if (score.differing == 0) {
    verdict.kind = VerdictKind::token_exact;
    note_missing_end(score, verdict);
    return;
  }
  const std::string differing =
      std::to_string(score.differing) + " of " + std::to_string(score.deficits.size()) + " tokens ";
  const float threshold = calibration == nullptr ? 0 : calibration->threshold;
  if (calibration == nullptr) {
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "token";
    verdict.hypotheses = uncalibrated_hypotheses(score);
    verdict.detail = uncalibrated_text(score, differing, why_none);
  } else if (by_rounding) {
    verdict.kind = VerdictKind::within_margin;
    verdict.reason = "rounding";
    verdict.detail =
        differing + "are not the engine's choice, by no more than the calibration allows";
    if (calibration->is_beyond_rounding())
      verdict.detail +=
          "; but that is more than rounding does, so they were hardly honest answers of these "
          "weights";
  } else {
    verdict.kind = VerdictKind::diverged;
    verdict.reason = "token";
    verdict.hypotheses = hypotheses(score, threshold);
    verdict.detail = diverged_text(score, threshold, verdict.hypotheses);
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
  note_missing_end(score, verdict);
}

}  // namespace verbatim::replay
