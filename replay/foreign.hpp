#pragma once
// Answers of another engine: what our engine thinks of each of their tokens, given that both serve the same weights.
// Token-DiFR (Karvonen et al. 2025, arXiv 2511.20621) for greedy answers.

#include "audit/records.hpp"
#include "local_engine/engine.hpp"
#include "replay/recorded.hpp"

#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// One choice of a foreign answer, teacher-forced.
struct ForeignScore {
  std::vector<local_engine::TokenId> output_ids;  ///< recovered from the text
  /// Of each token: the engine's best minus it; 0 if it is the engine's choice.
  std::vector<float> deficits;
  std::size_t differing = 0;  ///< tokens with another choice of the engine's
  bool ended = false;         ///< the last token is the end of sequence that ended the answer
  /// The answer says that the limit it was given ended it, and is much shorter than that: then the limit.
  std::optional<std::uint32_t> limit_not_reached;
  /// The answer has more tokens than the limit that the request sets: the limit.
  std::optional<std::uint32_t> limit_exceeded;
  /// What the answer names as its end ("" for nothing), where that is neither a stop nor a limit.
  std::optional<std::string> unknown_end;
  local_engine::GenerationResult result;

  [[nodiscard]] float deficit_max() const;
};

/// Why a foreign answer cannot be scored: a reason of NOT_REPLAYABLE, and a sentence.
struct CannotScore {
  std::string reason, detail;
};

struct ForeignAnswer {
  std::vector<ForeignScore> choices;  ///< empty if `cannot` says why
  /// Sampling parameters that the request does not give, and by which the answer is nearer to the engine's own:
  /// "repetition_penalty 1.8, of the model's generation_config.json". "" if none.
  std::string defaults;
  CannotScore cannot;
};

/// Rebuilds the request (template, special tokens, sampling as the API has it by default), recovers the tokens of the
/// answer's text, and scores them in one prefill. A request with a member whose effect is not known here is not
/// scored (`parameters`). Servers differ in what they set where a request leaves a penalty out (nothing, what the model's
/// generation_config.json has, or as Ollama does): all are tried, and the one that the answer fits best counts.
/// `asked_us`: when the endpoint was asked, which a template may tell; for a cache hit that is before the record's own
/// time. Greedy requests only: another engine's noise cannot be computed again. Errors as RecordSource::content() gives
/// them.
[[nodiscard]] Result<ForeignAnswer> score_foreign(audit::RecordSource& reader,
                                                  const RecordedLeaves& record,
                                                  std::int64_t asked_us,
                                                  local_engine::Engine& engine);

}  // namespace verbatim::replay
