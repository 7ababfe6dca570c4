#include "model_signing/problem.hpp"

#include <algorithm>

namespace verbatim::model_signing {

Checked<Json> parse_bounded(std::string_view text, const std::string& kind) {
  constexpr std::ptrdiff_t kValuesMax = 2'000'000;
  // Every value but the first follows one of these; inside texts they only make the count larger.
  const auto values = std::count_if(text.begin(), text.end(),
                                    [](char c) { return c == ',' || c == '[' || c == '{'; });
  if (values > kValuesMax) return Problem{kind, "more than two million values"};
  auto json = parse_json(text);
  if (!json) return Problem{kind, "not well-formed JSON: " + json.error().message()};
  return Checked<Json>(boost::system::in_place_value, std::move(*json));
}

Checked<void> check_members(const Json& object, const std::string& name,
                            std::initializer_list<std::string_view> known,
                            const std::string& kind) {
  if (!object.is_object()) return Problem{kind, name + " is no object"};
  for (const auto& [member, value] : object.items()) {
    if (std::find(known.begin(), known.end(), member) == known.end())
      return Problem{kind,
                     name + " has a member that the format does not know: " + member.substr(0, 64)};
  }
  return {};
}

}  // namespace verbatim::model_signing
