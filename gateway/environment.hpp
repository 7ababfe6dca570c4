#pragma once
// The facts about this machine and build that a replay elsewhere is compared with.

#include "schema/canonical_json.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace verbatim::gateway {

/// Members of an `environment` leaf, each a string. What cannot be found out is absent. No host
/// name.
[[nodiscard]] Json describe_environment();

/// Facts by name, as texts: of a machine, or of what a server says of itself.
using Facts = std::map<std::string, std::string>;

/// The names of facts that are in only one of the two, or differ, in order; at most `most` of them.
[[nodiscard]] std::vector<std::string> changed_facts(const Facts& before, const Facts& now,
                                                     std::size_t most = SIZE_MAX);

}  // namespace verbatim::gateway
