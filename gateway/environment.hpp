#pragma once
// The facts about this machine and build that a replay elsewhere is compared with.

#include "schema/canonical_json.hpp"

namespace verbatim::gateway {

/// Members of an `environment` leaf, each a string. What cannot be found out is absent. No host
/// name.
[[nodiscard]] Json describe_environment();

}  // namespace verbatim::gateway
