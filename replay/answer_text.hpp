#pragma once
// What an endpoint's answer says, for comparing answers with each other.

#include "gateway/dialect.hpp"
#include "schema/error.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::replay {

/// A token as the endpoint told it, with what else it might have been.
struct AnswerToken {
  std::string text;
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;  ///< likeliest first
};

struct AnswerText {
  /// All that was answered. A plain text is itself; what is no text (reasoning, a refusal, calls of tools, further choices)
  /// follows under lines that name it, in the form that docs/replay.md gives. Never empty.
  std::string text;
  std::string finish;  ///< of the first choice
  std::vector<AnswerToken>
      tokens;  ///< of its text; empty unless the endpoint gave log-probabilities
  std::string model, system_fingerprint;
};

/// Reads a whole (not streamed) answer. `invalid_input`: `what` is one word: `not_json`, or `no_answer` if nothing is in it.
[[nodiscard]] Result<AnswerText> read_answer_text(gateway::Api api, std::string_view body);

}  // namespace verbatim::replay
