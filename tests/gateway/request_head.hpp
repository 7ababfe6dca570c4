#pragma once
// A request's head in one line, for the tests of what is read of it.

#include "gateway/http.hpp"

#include <string>
#include <utility>
#include <vector>

namespace verbatim::gateway {

inline RequestHead head_of(const std::string& method, const std::string& target,
                           std::vector<Field> fields = {}) {
  RequestHead head;
  head.method = method;
  head.target = target;
  head.fields.all() = std::move(fields);
  return head;
}

}  // namespace verbatim::gateway
