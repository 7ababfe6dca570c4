#pragma once
// What may be said of one answer of a foreign engine, once it is scored.

#include "replay/calibration.hpp"
#include "replay/foreign.hpp"
#include "replay/verdict.hpp"

namespace verbatim::replay {

/// Fills kind, reason, detail, hypotheses, position, character, margin, deficit, expected, got, tokens, differing,
/// margins and trace. TOKEN_EXACT if every token is the engine's choice; else the calibration decides between
/// WITHIN_MARGIN and DIVERGED. Null: there is none, which `why_none` explains (the end of a sentence), and what differs is
/// DIVERGED. `position` is the worst token of
/// what is explained, and the first beyond the threshold of what is not.
void judge_foreign(const ForeignScore& score, const local_engine::Engine& engine,
                   const Calibration* calibration, const std::string& why_none, Verdict& verdict);

}  // namespace verbatim::replay
