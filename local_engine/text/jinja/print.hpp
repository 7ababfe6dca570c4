#pragma once
// Values as text: str(), repr() and json.dumps() of Python.

#include "local_engine/text/jinja/value.hpp"

#include <optional>
#include <string>

namespace verbatim::local_engine::jinja {

/// Ends a rendering whose output or intermediate text grows beyond this.
inline constexpr std::size_t kTextBytesMax = std::size_t{16} * 1024 * 1024;

/// str(value). Throws Fault beyond kTextBytesMax, or kDepthMax.
[[nodiscard]] std::string to_text(const Value& value);
[[nodiscard]] std::string to_repr(const Value& value);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  ///< one level of it; not set: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// json.dumps(value) with these settings. Throws Fault for what is not JSON (undefined values, functions, ...).
[[nodiscard]] std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace verbatim::local_engine::jinja
