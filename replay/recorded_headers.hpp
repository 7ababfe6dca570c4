#pragma once
// The headers that went out with a recorded answer.

#include "audit/records.hpp"
#include "gateway/http.hpp"

#include <cstdint>

namespace verbatim::replay {

/// What the response leaf `index` holds as `response.headers`. `invalid_input` where that is no list of pairs of texts; else
/// errors as RecordSource::content() gives them: `not_found` where none were kept.
[[nodiscard]] Result<gateway::Fields> recorded_headers(audit::RecordSource& reader,
                                                       std::uint64_t index);

}  // namespace verbatim::replay
