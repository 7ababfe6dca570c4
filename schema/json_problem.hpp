#pragma once
// What is wrong with a JSON text, in the same words whoever reads it. For the readers in this folder.

#include "schema/error.hpp"
#include "schema/json.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace verbatim::json_problem {

inline Error not_json(std::string what) {
  return {Errc::invalid_input, std::move(what), "JSON", ""};
}

/// nlohmann's reader takes a NUL byte for the end of the input, and would not see what follows it.
inline Error holds_nul() { return not_json("a NUL byte, which JSON does not allow"); }

inline std::string twice(const std::string& key) {
  return "the key '" + key.substr(0, 64) + "' occurs twice";
}

inline std::string beyond_doubles() { return "a number is beyond the doubles"; }

inline std::string bad_byte(std::size_t position) {
  return "not valid JSON at byte " + std::to_string(position);
}

/// Of json_sax::parse_error(). Numbers that overflow a double are reported there, with out_of_range (406), before
/// number_float().
inline std::string of(std::size_t position, const nlohmann::detail::exception& exception) {
  return exception.id == 406 ? beyond_doubles() : bad_byte(position);
}

}  // namespace verbatim::json_problem
