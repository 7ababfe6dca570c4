#pragma once
// The sections of a replay report that are more than a table.

#include "replay/html.hpp"
#include "replay/replay_report.hpp"

#include <string>

namespace verbatim::replay {

/// The verdict's class in report/style.css.
[[nodiscard]] std::string style_of(VerdictKind kind);

[[nodiscard]] std::size_t count_of(const ReplayRun& run, VerdictKind kind);

/// Verdicts over time, with the changes of the recording machine.
[[nodiscard]] Html time_line_section(const ReplayRun& run);
/// Margins of all compared tokens, with the threshold if there was a calibration.
[[nodiscard]] Html margins_section(const ReplayRun& run);
/// A card for each answer that diverged; nothing if none did.
[[nodiscard]] Html divergences_section(const ReplayRun& run);
/// Fingerprints of activations and what --explain found; nothing if there is neither.
[[nodiscard]] Html activations_section(const ReplayRun& run);
/// The kept texts, with their fragile places.
[[nodiscard]] Html texts_section(const ReplayRun& run);

}  // namespace verbatim::replay
