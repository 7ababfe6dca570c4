#pragma once
// Jinja's filters on sequences and dicts.

#include "local_engine/text/jinja/builtins.hpp"

#include <string_view>

namespace verbatim::local_engine::jinja {

/// Null when there is none of that name.
[[nodiscard]] Filter find_sequence_filter(std::string_view name);

}  // namespace verbatim::local_engine::jinja
