#pragma once
// Options that take a number.

#include "schema/canonical_json.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <string>

namespace verbatim::cli {

/// For options with any number from `min` to `max`. CLI::Range lets "nan" through: it exceeds neither bound.
[[nodiscard]] inline CLI::Validator number(double min, double max) {
  return CLI::Validator(
      [min, max](const std::string& text) {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole && value >= min && value <= max) return std::string();
        return "'" + text + "' is not a number from " + ecmascript_number(min) + " to " +
               ecmascript_number(max);
      },
      "");
}

}  // namespace verbatim::cli
