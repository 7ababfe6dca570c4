#pragma once
// How long an exchange's record must be kept at least, by route: [[retention]] of the configuration.

#include "audit/retention.hpp"
#include "gateway/route_match.hpp"

#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct RetentionRule {
  RouteMatch where;
  audit::Retention retention;
};

/// The first rule that fits; nullptr if none does. Where a server could read the path in several ways, the one with the
/// longest period that any of them gives; a target that is no path has the longest of all.
[[nodiscard]] const audit::Retention* retention_for(const std::vector<RetentionRule>& rules,
                                                    const RequestHead& head,
                                                    std::string_view upstream);

}  // namespace verbatim::gateway
