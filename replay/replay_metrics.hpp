#pragma once
// What a scheduled replay tells a monitoring system: a file in Prometheus text format 0.0.4, as node_exporter's textfile
// collector reads it.

#include "replay/replay_report.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::replay {

/// `verbatim_replay_verdict_total{verdict="..."}`, `verbatim_replay_tokens_total` and `verbatim_replay_runs_total` go on from
/// what the last run wrote, which is `before` ("" or anything else: from 0); verdicts taken over from an earlier run are not
/// counted again. `verbatim_replay_last_*` speak of this run alone. `ended_us`: Unix microseconds.
[[nodiscard]] std::string replay_metrics(const ReplayRun& run, std::string_view before,
                                         std::int64_t ended_us);

/// Whether a text has nothing else in it: what replay_metrics() would not write again would be lost.
[[nodiscard]] bool are_replay_metrics(std::string_view text);

}  // namespace verbatim::replay
