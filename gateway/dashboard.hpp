#pragma once
// The operator's page on the admin listener: the figures of /metrics for people, as one HTML file that loads nothing and
// holds no script. It asks to be loaded anew every few seconds.

#include "audit/log.hpp"
#include "audit/log_overview.hpp"
#include "gateway/observations.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::gateway {

struct DashboardFacts {
  std::string_view metrics;  ///< as Metrics::text() gives them: the page says what they say
  const Observations& observations;
  audit::Log::Stats log;
  const audit::LogOverview* overview = nullptr;  ///< null: not known
  std::uint64_t gap = 0;                         ///< answered without a leaf, not yet in a gap leaf
  bool draining = false;
  std::int64_t now_us = 0;
};

[[nodiscard]] std::string dashboard(const DashboardFacts& facts);

}  // namespace verbatim::gateway
