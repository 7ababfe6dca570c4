#pragma once
// Which API a request speaks, what it asks for, and how that API says no. Requests are read, never
// rewritten.

#include "gateway/http.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

enum class Api {
  generic,
  openai_chat,
  openai_completions,
  openai_models,
  openai_responses,
  anthropic_messages,
};

/// "openai.chat" and so on: `route.api` of schema/leaf.md.
[[nodiscard]] std::string_view api_name(Api api);
/// The reverse; none if no API has the name.
[[nodiscard]] std::optional<Api> api_named(std::string_view name);

/// Chat, completions and messages: what the local engine serves, and what has canonical answers.
[[nodiscard]] bool generates_text(Api api);

/// By path (with or without the leading /v1) and, for paths that both have, by the
/// anthropic-version header.
[[nodiscard]] Api api_of(const RequestHead& head);

/// True if the caller speaks Anthropic's API, also on paths that the gateway knows nothing else
/// about.
[[nodiscard]] bool speaks_anthropic(const RequestHead& head);

/// True for bodies that nobody here reads: not those of an API that is known, and not JSON. They may be long.
[[nodiscard]] bool may_stream_body(Api api, const Fields& fields);

/// What a request's body says at its top level.
struct RequestFacts {
  /// One well-formed JSON object with no name twice: else servers may differ in what they read, and nothing else here is
  /// set.
  bool is_json = false;
  std::string model;  ///< "" if it names none
  bool stream = false;
  bool include_usage = false;  ///< stream_options.include_usage
  /// Sampling parameters with the tokens that were sent, strings unquoted.
  std::vector<std::pair<std::string, std::string>> params;
  bool greedy = false;    ///< temperature 0 was sent
  bool seeded = false;    ///< a seed was sent
  bool stateful = false;  ///< the answer, or a later one, depends on what the server keeps
};

[[nodiscard]] RequestFacts read_request(Api api, std::string_view body);

/// "greedy", "seeded" or "sampled".
[[nodiscard]] std::string_view determinism_of(const RequestFacts& facts);

/// An error body in the shape of the API that was called.
[[nodiscard]] std::string error_body(bool anthropic, int status, std::string_view message,
                                     std::string_view code, std::string_view record_id);

/// "Not Found" and so on; "" for a status we never make.
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace verbatim::gateway
