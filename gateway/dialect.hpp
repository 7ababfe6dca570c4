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
  openai_embeddings,
  anthropic_messages,
  anthropic_count_tokens,
  gemini_generate_content,  // whole or streamed
  gemini_count_tokens,
  gemini_embed_content,  // one or a batch
};

/// "openai.chat" and so on: `route.api` of schema/leaf.md.
[[nodiscard]] std::string_view api_name(Api api);
/// The reverse; none if no API has the name.
[[nodiscard]] std::optional<Api> api_named(std::string_view name);

/// Chat, completions and messages: what the local engine serves, and what has canonical answers.
[[nodiscard]] bool generates_text(Api api);

/// Google's API, by whatever path it was reached.
[[nodiscard]] bool is_gemini(Api api);

/// False for those that sample nothing: lists of models, embeddings, counts of tokens.
[[nodiscard]] bool may_sample(Api api);

/// True for those whose event streams say by themselves that they are whole.
[[nodiscard]] bool streams_have_an_end(Api api);

/// By path (with or without the leading /v1; Google's with its escapes undone) and, for paths that both have, by the
/// anthropic-version header.
[[nodiscard]] Api api_of(const RequestHead& head);

/// Whose API: decides the upstream, and the shape of the gateway's own errors.
enum class Dialect { openai, anthropic, gemini };
/// "openai", "anthropic", "gemini": names in the configuration.
[[nodiscard]] std::string_view dialect_name(Dialect dialect);

/// What the caller speaks, also on paths that the gateway knows nothing else about.
[[nodiscard]] Dialect dialect_of(const RequestHead& head);

/// True for bodies that nobody here reads: not those of an API that is known, and not JSON. They may be long.
[[nodiscard]] bool may_stream_body(Api api, const Fields& fields);

/// What a request says: at the top level of its body, and of Google's API also in generationConfig and in the target.
struct RequestFacts {
  /// The body is one well-formed JSON object with no name twice: else servers may differ in what they read, and nothing
  /// of it is here.
  bool is_json = false;
  std::string model;  ///< "" if it names none, or two
  bool stream = false;
  bool include_usage = false;  ///< stream_options.include_usage
  /// Sampling parameters with the tokens that were sent, strings unquoted.
  std::vector<std::pair<std::string, std::string>> params;
  bool greedy = false;      ///< temperature 0 was sent
  bool seeded = false;      ///< a seed was sent
  bool stateful = false;    ///< the answer, or a later one, depends on what the server keeps
  bool two_models = false;  ///< the body names more than one
};

/// What the body says. Not for Google's paths alone: read_target() has the last word on the model.
[[nodiscard]] RequestFacts read_request(Api api, std::string_view body);
/// What the target says beside it. A model that it names is the request's, unless the body names another: then the
/// request has none that can be told.
void read_target(Api api, std::string_view target, RequestFacts& facts);

/// "greedy", "seeded" or "sampled".
[[nodiscard]] std::string_view determinism_of(const RequestFacts& facts);

/// An error body in the shape of the API that was called.
[[nodiscard]] std::string error_body(Dialect dialect, int status, std::string_view message,
                                     std::string_view code, std::string_view record_id);

/// "Not Found" and so on; "" for a status we never make.
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace verbatim::gateway
