#pragma once
// datetime.strftime for UTC, in the "C" locale whatever the process's is.

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::local_engine::jinja {

/// Throws Fault for a directive that is not supported.
[[nodiscard]] std::string format_time(std::string_view format, std::int64_t unix_us);

}  // namespace verbatim::local_engine::jinja
