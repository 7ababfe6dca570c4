#pragma once
// What must not be stored of an exchange, as rules of the configuration.

#include "gateway/json_pointer.hpp"
#include "gateway/route_match.hpp"
#include "gateway/secret_patterns.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// What stands in a record in place of what was taken out.
inline constexpr std::string_view kTakenOut = "REDACTED";

struct RedactionRule {
  std::string name;  ///< lower-case letters, digits, '-' and '_'; told in records
  RouteMatch where;
  std::vector<JsonPointer> pointers;  ///< into bodies of requests
  std::vector<JsonPointer>
      answer_pointers;               ///< into bodies of answers; for streams see stream_pointers()
  std::vector<std::string> headers;  ///< of requests and answers
  SecretKinds patterns;              ///< wherever a text of the exchange is stored
};

/// Shared with the exchanges that began under them.
using RedactionRules = std::vector<std::shared_ptr<const RedactionRule>>;

}  // namespace verbatim::gateway
