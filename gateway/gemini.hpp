#pragma once
// Google's Gemini API, as its requests say it: the path names model and method, generationConfig says how to sample, and
// every member has two names, as the JSON form of Protocol Buffers has it (topP, top_p).

#include "gateway/dialect.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// What a path of the form .../models/{model}:{method} says.
struct MethodCall {
  /// Without "models/" and what is before it. Of another collection or publisher with its name, so that no two models
  /// have one: "tunedModels/x", "endpoints/7", "publishers/meta/models/x".
  std::string model;
  std::string method;  ///< as it is written; a word
};

/// Escapes are undone once, and names of collections are compared without regard to case: what a server might take for
/// such a path is one. None if the path names no model in this way.
[[nodiscard]] std::optional<MethodCall> method_call_of(std::string_view path);

/// True if a path ends with one of the API's methods, whatever is before it.
[[nodiscard]] bool ends_with_gemini_method(std::string_view path);

/// generateContent, streamGenerateContent, countTokens, embedContent, batchEmbedContents, without regard to case.
[[nodiscard]] std::optional<Api> api_of_gemini_method(std::string_view method);
[[nodiscard]] bool is_streaming_method(std::string_view method);

/// Takes what a member of a request's body says. `name`: proto_name() of the member. False if something in the value
/// could be read in two ways.
[[nodiscard]] bool read_gemini_member(std::string_view name, std::string_view value,
                                      RequestFacts& facts);

/// The name of a member in the schema, whichever of its two names was sent: "topP" is "top_p".
[[nodiscard]] std::string proto_name(std::string_view name);

/// "models/x", "publishers/google/models/x" and "x" are one model.
[[nodiscard]] std::string short_model_name(std::string_view name);

/// The canonical name of an HTTP status: "INVALID_ARGUMENT" (google.rpc.Code).
[[nodiscard]] std::string_view google_status(int http_status);

}  // namespace verbatim::gateway
