#pragma once
// A probe's result as one HTML file that loads nothing and holds no script.

#include "replay/probe.hpp"

#include <string>

namespace verbatim::replay {

/// `made` is the time to print, RFC 3339.
[[nodiscard]] std::string probe_report(const ProbeResult& result, const std::string& made);

}  // namespace verbatim::replay
