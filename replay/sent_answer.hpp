#pragma once
// Is what went out to the client what the gateway makes of the recorded tokens, and nothing else?
//
// The gateway writes the local engine's answers deterministically (gateway/local_answer.hpp), and a cache hit's from its
// origin's (gateway/canonical_output.hpp). So both are written again here, and compared byte for byte: an answer that
// says more, less or something else in any place that some client reads is found, whatever the place.

#include "gateway/local_request.hpp"
#include "replay/recorded.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

/// An answer that the engine computed: its record, what was asked, and what was recorded of each choice.
struct SentAnswer {
  gateway::Api api;
  const RecordedLeaves& record;
  const gateway::LocalQuestion& question;
  const std::vector<RecordedChoice>& choices;
};

/// "" if what a request's leaf says of its body (parameters, determinism, weights) is what the gateway reads of it; else what
/// differs, in words.
[[nodiscard]] std::string unlike_request(const Json& request_leaf, gateway::Api api,
                                         std::string_view body, const std::string& weights);

/// "" if body, content type and what the leaf says of them (usage, tokens, ends, status) are what the gateway makes of
/// the tokens; else what differs, in words. What the answer says of the time is its own, within what is possible. Of a
/// stream the events of several choices may stand in any order among each other. Where the request
/// asked for log-probabilities this scores the answer once more. Errors as RecordSource::content() gives them.
[[nodiscard]] Result<std::string> unlike_sent(audit::RecordSource& reader, const SentAnswer& sent,
                                              local_engine::Engine& engine);

/// The same for a hit of that answer, asked for in the shape of `question`: the body is the origin's in that shape.
[[nodiscard]] Result<std::string> unlike_hit(audit::RecordSource& reader, const SentAnswer& origin,
                                             const RecordedLeaves& hit,
                                             const gateway::LocalQuestion& question);

}  // namespace verbatim::replay
