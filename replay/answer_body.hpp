#pragma once
// A recorded answer's body, whole or streamed, as one JSON value, and what it says.

#include "gateway/dialect.hpp"
#include "schema/canonical_json.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

/// The API that a request's leaf names, if it is one that the local engine serves.
[[nodiscard]] std::optional<gateway::Api> served_api(const Json& request_leaf);

/// A stream of events, and no JSON object.
[[nodiscard]] bool is_stream(std::string_view body);

/// A stream is joined. Nothing if the body is no such answer.
[[nodiscard]] std::optional<Json> whole_answer(gateway::Api api, const std::string& body);

struct AnswerChoice {
  std::string text, finish;
  std::string stop_sequence;  ///< Anthropic's: the one that is said to have ended it
  /// A member that says more than the text: `tool_calls`, `refusal`, `reasoning_content`, a block of thinking, ... Whatever
  /// is not known to say nothing is one. "" if there is none.
  std::string beside;
};
/// Does an answer's `finish` say that a limit of tokens ended it?
[[nodiscard]] bool is_by_limit(std::string_view finish);

/// By choice. Nothing if `choices` is no list, or an index is out of range or told twice.
[[nodiscard]] std::optional<std::vector<AnswerChoice>> answer_choices(gateway::Api api,
                                                                      const Json& whole);

}  // namespace verbatim::replay
