#pragma once
// JSON pointers (RFC 6901) in which the step "*" stands for every member or item.

#include "schema/error.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

class JsonPointer {
 public:
  explicit JsonPointer(std::vector<std::string> steps) : steps_(std::move(steps)) {}

  /// `invalid_input` if the text does not begin with '/' or holds a '~' that is neither ~0 nor ~1. "" is the whole.
  [[nodiscard]] static Result<JsonPointer> parse(std::string_view text);
  [[nodiscard]] std::string str() const;

  /// `path`: names of members, unescaped, and decimal places in arrays.
  [[nodiscard]] bool matches(const std::vector<std::string>& path) const;
  [[nodiscard]] const std::vector<std::string>& steps() const { return steps_; }

 private:
  std::vector<std::string> steps_;
};

}  // namespace verbatim::gateway
