#include "audit/strict_json.hpp"

#include <algorithm>

namespace verbatim::audit {

namespace {

constexpr std::int64_t kWholeMax = std::int64_t{1} << 53;

bool has_other_numbers(const Json& value) {
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), has_other_numbers);
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() > static_cast<std::uint64_t>(kWholeMax);
  }
  return value.is_number_float() ||
         (value.is_number_integer() && value.get<std::int64_t>() < -kWholeMax);
}

}  // namespace

Result<Json> parse_strict_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Error{Errc::invalid_input, "it begins with a byte order mark", "", ""};
  }
  auto json = parse_json(text);
  if (json && has_other_numbers(*json)) {
    return Error{Errc::invalid_input, "it holds a number that is not whole, or beyond 2^53", "",
                 ""};
  }
  return json;
}

}  // namespace verbatim::audit
