#pragma once
// What the log itself tells, for /metrics: replays append their verdicts past the gateway's own counters.

#include "audit/log_overview.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace verbatim::gateway {

inline constexpr std::array kVerdictNames = {
    "BITWISE", "TOKEN_EXACT", "WITHIN_MARGIN", "DIVERGED", "NOT_REPLAYABLE", "ERASED", "PRUNED"};

/// Prometheus text format 0.0.4. `now_us`: Unix time, for ages.
[[nodiscard]] std::string overview_metrics(const audit::LogOverview& log, std::int64_t now_us);

/// How many verdicts of this name there were since the gateway started.
[[nodiscard]] std::uint64_t verdict_count(const audit::LogOverview& log, const std::string& name);

}  // namespace verbatim::gateway
