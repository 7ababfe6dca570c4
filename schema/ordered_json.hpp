#pragma once
// Reading JSON whose order of members counts: chat templates print objects as they came.

#include "schema/canonical_json.hpp"

#include <string_view>

namespace verbatim {

/// As parse_json(), with the members in the order of the text. Time grows with n log n of the text, whatever is in it;
/// nlohmann's own parser compares each key of an ordered object with all before it.
[[nodiscard]] Result<OrderedJson> parse_ordered_json(std::string_view text);

}  // namespace verbatim
