#pragma once
// JSON of evidence, read so that every verifier takes it for the same: what two programs could read two ways is refused.

#include "schema/canonical_json.hpp"

#include <string_view>

namespace verbatim::audit {

/// parse_json() of a text without byte order mark whose numbers are whole and not beyond 2^53. `invalid_input` otherwise.
[[nodiscard]] Result<Json> parse_strict_json(std::string_view text);

}  // namespace verbatim::audit
