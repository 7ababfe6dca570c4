#pragma once
// Typed access to the members of a config.json, and the two ways in which one is refused.

#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace verbatim::local_engine {

inline Error wrong(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }
inline Error unsupported(const std::string& what, std::string advice = "") {
  return {Errc::unsupported, what + " is not supported", "", std::move(advice)};
}

/// Members of one object. A member of another kind than asked for is an error, never a default.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  /// The member, unless it is absent or null: the same thing in these files.
  [[nodiscard]] const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  /// True where the file says that there is none, which is not the same as saying nothing.
  [[nodiscard]] bool is_null(const char* key) const {
    const auto at = json_.find(key);
    return at != json_.end() && at->is_null();
  }
  [[nodiscard]] Result<std::size_t> size(const char* key,
                                         std::optional<std::size_t> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_number_unsigned()) return missing(key, value, "a size");
    return value->get<std::size_t>();
  }
  [[nodiscard]] Result<double> number(const char* key, std::optional<double> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_number()) return missing(key, value, "a number");
    return value->get<double>();
  }
  [[nodiscard]] Result<bool> boolean(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return missing(key, value, "a boolean");
    return value->get<bool>();
  }
  [[nodiscard]] Result<std::string> text(const char* key,
                                         std::optional<std::string> fallback = {}) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr || !value->is_string()) return missing(key, value, "a string");
    return value->get<std::string>();
  }

 private:
  static Error missing(const char* key, const Json* value, const char* expected) {
    return wrong(std::string("'") + key + "' is " +
                 (value == nullptr ? "missing" : std::string("not ") + expected));
  }
  const Json& json_;
};

}  // namespace verbatim::local_engine
