#pragma once
// A tlog-policy file that an option names.

#include "schema/error.hpp"

#include <string>

namespace verbatim::cli {

/// Its text, which is a policy; "" for no option. `invalid_input` names file and line.
[[nodiscard]] Result<std::string> read_policy(const std::string& path);

}  // namespace verbatim::cli
