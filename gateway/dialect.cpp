#include "gateway/dialect.hpp"

#include "gateway/gemini.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

namespace verbatim::gateway {

namespace {

/// Members of a request that decide what is sampled or how it is sent.
constexpr std::array<std::string_view, 30> kParams = {"temperature",
                                                      "top_p",
                                                      "top_k",
                                                      "min_p",
                                                      "seed",
                                                      "max_tokens",
                                                      "max_completion_tokens",
                                                      "max_output_tokens",
                                                      "n",
                                                      "best_of",
                                                      "frequency_penalty",
                                                      "presence_penalty",
                                                      "repetition_penalty",
                                                      "logit_bias",
                                                      "logprobs",
                                                      "top_logprobs",
                                                      "stop",
                                                      "stop_sequences",
                                                      "stream",
                                                      "stream_options",
                                                      "echo",
                                                      "suffix",
                                                      "service_tier",
                                                      "response_format",
                                                      "reasoning_effort",
                                                      "tool_choice",
                                                      "parallel_tool_calls",
                                                      "ignore_eos",
                                                      "dimensions",
                                                      "encoding_format"};
constexpr std::size_t kParamBytesMax = 512;

constexpr std::array kApis = {Api::generic,
                              Api::openai_chat,
                              Api::openai_completions,
                              Api::openai_models,
                              Api::openai_responses,
                              Api::openai_embeddings,
                              Api::anthropic_messages,
                              Api::anthropic_count_tokens,
                              Api::gemini_generate_content,
                              Api::gemini_count_tokens,
                              Api::gemini_embed_content};

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

/// The path behind any prefix that ends with /v1: base URLs come with and without it.
std::string_view path_behind_v1(std::string_view path) {
  const std::size_t at = path.find("/v1/");
  return at == std::string_view::npos ? path : path.substr(at + 3);
}

/// True if a server that resolves "." and ".." would take this path for another.
bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    std::string segment(path.substr(0, end));
    for (const std::string_view dot : {"%2e", "%2E"}) {
      for (std::size_t at; (at = segment.find(dot)) != std::string::npos;) {
        segment.replace(at, dot.size(), ".");
      }
    }
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

void read_stream_options(std::string_view value, RequestFacts& facts) {
  each_member(value, [&](const JsonMember& member) {
    if (member.key == "include_usage") facts.include_usage = member.value == "true";
  });
}

void read_member(std::string_view key, std::string_view value, RequestFacts& facts) {
  if (key == "model") facts.model = json_string(value).value_or("");
  if (key == "stream") facts.stream = value == "true";
  if (key == "stream_options") read_stream_options(value, facts);
  if (key == "temperature") facts.greedy = is_zero(value);
  if (key == "seed") facts.seeded = value != "null";
  if ((key == "store" || key == "background") && value == "true") facts.stateful = true;
  if ((key == "previous_response_id" || key == "conversation" || key == "container") &&
      value != "null") {
    facts.stateful = true;
  }
  if (std::find(kParams.begin(), kParams.end(), key) != kParams.end()) {
    const auto text = json_string(value);
    facts.params.emplace_back(key, leaf_text(text ? *text : std::string(value), kParamBytesMax));
  }
}

/// Paths that nobody but Google has: of its API's versions, of its methods, and of its Live sessions.
bool is_google_path(std::string_view path) {
  for (const std::string_view part : {"/v1beta/", "/v1alpha/", "/v1beta1/", "/ws/google."}) {
    if (path.find(part) != std::string_view::npos) return true;
  }
  const auto call = method_call_of(path);
  return call && api_of_gemini_method(call->method);
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
  return out;
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string_view openai_type(int status) {
  if (status == 401 || status == 403) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "api_error";
}

}  // namespace

std::string_view api_name(Api api) {
  switch (api) {
    case Api::openai_chat:
      return "openai.chat";
    case Api::openai_completions:
      return "openai.completions";
    case Api::openai_models:
      return "openai.models";
    case Api::openai_responses:
      return "openai.responses";
    case Api::openai_embeddings:
      return "openai.embeddings";
    case Api::anthropic_messages:
      return "anthropic.messages";
    case Api::anthropic_count_tokens:
      return "anthropic.count_tokens";
    case Api::gemini_generate_content:
      return "gemini.generate_content";
    case Api::gemini_count_tokens:
      return "gemini.count_tokens";
    case Api::gemini_embed_content:
      return "gemini.embed_content";
    case Api::generic:
      break;
  }
  return "generic";
}

std::optional<Api> api_named(std::string_view name) {
  for (const Api api : kApis) {
    if (name == api_name(api)) return api;
  }
  return std::nullopt;
}

bool generates_text(Api api) {
  return api == Api::openai_chat || api == Api::openai_completions ||
         api == Api::anthropic_messages;
}

bool is_gemini(Api api) {
  return api == Api::gemini_generate_content || api == Api::gemini_count_tokens ||
         api == Api::gemini_embed_content;
}

bool may_sample(Api api) {
  switch (api) {
    case Api::openai_models:
    case Api::openai_embeddings:
    case Api::anthropic_count_tokens:
    case Api::gemini_count_tokens:
    case Api::gemini_embed_content:
      return false;
    default:
      return true;
  }
}

bool streams_have_an_end(Api api) {
  return generates_text(api) || api == Api::openai_responses || api == Api::gemini_generate_content;
}

Api api_of(const RequestHead& head) {
  const std::string_view whole_path = path_of(head.target);
  const auto call = method_call_of(whole_path);
  const auto gemini = call ? api_of_gemini_method(call->method) : std::nullopt;
  if (gemini) return head.method == "POST" ? *gemini : Api::generic;
  const std::string_view path = path_behind_v1(whole_path);
  if (head.method == "POST") {
    if (path.ends_with("/chat/completions")) return Api::openai_chat;
    if (path == "/completions") return Api::openai_completions;
    if (path == "/responses") return Api::openai_responses;
    if (path == "/embeddings") return Api::openai_embeddings;
    if (path == "/messages") return Api::anthropic_messages;
    if (path == "/messages/count_tokens") return Api::anthropic_count_tokens;
  }
  // What is sent as a GET and meant as something else is no list of models.
  if ((head.method == "GET" || head.method == "HEAD") &&
      !head.fields.has("x-http-method-override") &&
      (path == "/models" || (path.starts_with("/models/") && !has_dot_segment(path)))) {
    return Api::openai_models;
  }
  return Api::generic;
}

std::string_view dialect_name(Dialect dialect) {
  switch (dialect) {
    case Dialect::openai:
      return "openai";
    case Dialect::anthropic:
      return "anthropic";
    case Dialect::gemini:
      return "gemini";
  }
  return "";
}

Dialect dialect_of(const RequestHead& head) {
  if (head.fields.has("anthropic-version")) return Dialect::anthropic;
  const std::string_view path = path_of(head.target);
  const std::string_view behind = path_behind_v1(path);
  if (behind == "/messages" || behind.starts_with("/messages/")) return Dialect::anthropic;
  if (is_google_path(path)) return Dialect::gemini;
  const Api api = api_of(head);
  if (api != Api::generic && api != Api::openai_models) return Dialect::openai;
  const bool googles_key =
      head.fields.has("x-goog-api-key") || !query_parameter(head.target, "key").empty();
  return googles_key ? Dialect::gemini : Dialect::openai;
}

bool may_stream_body(Api api, const Fields& fields) {
  return api == Api::generic && fields.get("content-type").find("json") == std::string_view::npos;
}

RequestFacts read_request(Api api, std::string_view body) {
  RequestFacts nothing;
  nothing.stateful = api == Api::openai_responses;
  RequestFacts facts;
  std::set<std::string> names;
  bool once = true;
  const bool gemini = is_gemini(api);
  bool kept = api == Api::openai_responses;  // which keeps what it answers unless told not to
  const bool whole = each_member(body, [&](const JsonMember& member) {
    std::string name = gemini ? proto_name(member_name(member)) : member_name(member);
    if (name == "store" && member.value == "false") kept = false;
    if (gemini) {
      once = read_gemini_member(name, member.value, facts) && once;
    } else {
      read_member(name, member.value, facts);
    }
    once = names.insert(std::move(name)).second && once;
  });
  // Parsers differ in which of two members of one name they take, and in what they read of a text that is no JSON.
  if (!whole || !once) return nothing;
  facts.is_json = true;
  facts.stateful = facts.stateful || kept;
  if (facts.two_models) facts.model.clear();
  return facts;
}

void read_target(Api api, std::string_view target, RequestFacts& facts) {
  const auto call = method_call_of(path_of(target));
  if (!call || api == Api::openai_models) return;
  if (!facts.model.empty() && short_model_name(facts.model) != call->model) facts.two_models = true;
  facts.model = facts.two_models ? "" : call->model;
  if (api == Api::gemini_generate_content && is_streaming_method(call->method)) {
    facts.stream = true;
    facts.params.emplace_back("stream", "true");
  }
}

std::string_view determinism_of(const RequestFacts& facts) {
  if (facts.greedy) return "greedy";
  return facts.seeded ? "seeded" : "sampled";
}

std::string error_body(Dialect dialect, int status, std::string_view message, std::string_view code,
                       std::string_view record_id) {
  std::string out;
  if (dialect == Dialect::gemini) {
    out = R"({"error":{"code":)" + std::to_string(status) + R"(,"message":)";
    append_json_string(out, message);
    out += R"(,"status":)";
    append_json_string(out, google_status(status));
    out += R"(,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":)";
    append_json_string(out, upper(code));
    out +=
        R"(,"domain":"verbatim"},{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":)";
    append_json_string(out, record_id);
    out += "}]}}";
  } else if (dialect == Dialect::anthropic) {
    out = R"({"type":"error","error":{"type":)";
    append_json_string(out, anthropic_type(status));
    out += R"(,"message":)";
    append_json_string(out, message);
    out += R"(},"request_id":)";
    append_json_string(out, record_id);
    out += "}";
  } else {
    out = R"({"error":{"message":)";
    append_json_string(out, message);
    out += R"(,"type":)";
    append_json_string(out, openai_type(status));
    out += R"(,"param":null,"code":)";
    append_json_string(out, code);
    out += "}}";
  }
  return out;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

}  // namespace verbatim::gateway
