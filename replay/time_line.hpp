#pragma once
// The records of a run in the order of time, and when the machine that recorded them changed.

#include "replay/replay_report.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::replay {

struct EnvironmentChange {
  std::uint64_t index = 0;  ///< of the environment leaf
  std::int64_t time_us = 0;
  std::vector<std::string> facts;  ///< that differ from the environment before
};

struct TimeLine {
  std::int64_t start_us = 0, column_us = 1;
  /// Records in each stretch of `column_us`, by verdict in the order of kVerdictKinds.
  std::vector<std::array<std::uint64_t, kVerdictKinds.size()>> columns;
  std::vector<EnvironmentChange> changes;
};

/// Stretches of a round length, at most 41. Empty if no record has a time.
[[nodiscard]] TimeLine time_line(const ReplayRun& run);

}  // namespace verbatim::replay
