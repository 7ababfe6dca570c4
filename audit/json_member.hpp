#pragma once
// Members of JSON objects that came from elsewhere: of the right type, or as good as absent.

#include "schema/canonical_json.hpp"

#include <cstdint>
#include <string>

namespace verbatim::audit {

/// A member, or nullptr if `object` is none or has no such member.
[[nodiscard]] inline const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

/// A text, or "".
[[nodiscard]] inline std::string text_at(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

/// A whole number, or 0.
[[nodiscard]] inline std::int64_t number_at(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

[[nodiscard]] inline bool is_true_at(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

}  // namespace verbatim::audit
