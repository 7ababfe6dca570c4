#pragma once
// Typed access to the members of a JSON object; anything else than what is asked for is a Fault that names
// the member.

#include "local_engine/text/fault.hpp"
#include "schema/canonical_json.hpp"

#include <string>
#include <string_view>

namespace verbatim::local_engine {

/// The member, or null if it is absent or JSON null. `json` must be an object.
[[nodiscard]] inline const Json* member(const Json& json, const char* name) {
  if (!json.is_object())
    malformed("tokenizer.json: an object is expected around '" + std::string(name) + "'");
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

[[nodiscard]] inline const Json& required(const Json& json, const char* name) {
  const Json* found = member(json, name);
  if (found == nullptr) malformed("tokenizer.json: '" + std::string(name) + "' is missing");
  return *found;
}

[[nodiscard]] inline std::string as_string(const Json& value, const char* name) {
  if (!value.is_string()) malformed("tokenizer.json: '" + std::string(name) + "' is not a string");
  return value.get<std::string>();
}

[[nodiscard]] inline std::string required_string(const Json& json, const char* name) {
  return as_string(required(json, name), name);
}

[[nodiscard]] inline bool boolean(const Json& json, const char* name, bool fallback) {
  const Json* found = member(json, name);
  if (found == nullptr) return fallback;
  if (!found->is_boolean())
    malformed("tokenizer.json: '" + std::string(name) + "' is not a boolean");
  return found->get<bool>();
}

/// An array, or an empty one when absent.
[[nodiscard]] inline const Json& array(const Json& json, const char* name) {
  static const Json kNone = Json::array();
  const Json* found = member(json, name);
  if (found == nullptr) return kNone;
  if (!found->is_array()) malformed("tokenizer.json: '" + std::string(name) + "' is not an array");
  return *found;
}

/// A token id: at most 2^31 - 1.
[[nodiscard]] inline std::int32_t as_id(const Json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 0x7fffffff) {
    malformed("tokenizer.json: '" + std::string(name) + "' is not a token id");
  }
  return static_cast<std::int32_t>(value.get<std::uint64_t>());
}

}  // namespace verbatim::local_engine
