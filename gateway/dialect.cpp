#include "gateway/dialect.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

namespace verbatim::gateway {

namespace {

/// Members of a request that decide what is sampled or how it is sent.
constexpr std::array<std::string_view, 28> kParams = {"temperature",
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
                                                      "ignore_eos"};
constexpr std::size_t kParamBytesMax = 512;

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

/// True for 0, -0, 0.0, 0e5: any way to write it.
bool is_zero(std::string_view number) {
  const std::size_t mantissa_end = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, mantissa_end);
  return !mantissa.empty() && mantissa.find_first_of("123456789") == std::string_view::npos &&
         mantissa.find('0') != std::string_view::npos && mantissa.front() != '"';
}

void read_stream_options(std::string_view value, RequestFacts& facts) {
  each_member(value, [&](const JsonMember& member) {
    if (member.key == "include_usage") facts.include_usage = member.value == "true";
  });
}

/// A member's name as every JSON parser reads it: "mod\u0065l" is "model".
std::string name_of(const JsonMember& member) {
  if (member.key.find('\\') == std::string_view::npos) return std::string(member.key);
  return json_string(member.whole.substr(0, member.key.size() + 2)).value_or("");
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
    case Api::anthropic_messages:
      return "anthropic.messages";
    case Api::generic:
      break;
  }
  return "generic";
}

std::optional<Api> api_named(std::string_view name) {
  for (const Api api : {Api::generic, Api::openai_chat, Api::openai_completions, Api::openai_models,
                        Api::openai_responses, Api::anthropic_messages}) {
    if (name == api_name(api)) return api;
  }
  return std::nullopt;
}

bool generates_text(Api api) {
  return api == Api::openai_chat || api == Api::openai_completions ||
         api == Api::anthropic_messages;
}

Api api_of(const RequestHead& head) {
  const std::string_view path = path_behind_v1(path_of(head.target));
  if (head.method == "POST") {
    if (path.ends_with("/chat/completions")) return Api::openai_chat;
    if (path == "/completions") return Api::openai_completions;
    if (path == "/responses") return Api::openai_responses;
    if (path == "/messages") return Api::anthropic_messages;
  }
  if ((head.method == "GET" || head.method == "HEAD") &&
      (path == "/models" || (path.starts_with("/models/") && !has_dot_segment(path)))) {
    return Api::openai_models;
  }
  return Api::generic;
}

bool speaks_anthropic(const RequestHead& head) {
  if (head.fields.has("anthropic-version")) return true;
  const std::string_view path = path_behind_v1(path_of(head.target));
  return path == "/messages" || path.starts_with("/messages/");
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
  bool kept = api == Api::openai_responses;  // which keeps what it answers unless told not to
  const bool whole = each_member(body, [&](const JsonMember& member) {
    std::string name = name_of(member);
    if (name == "store" && member.value == "false") kept = false;
    read_member(name, member.value, facts);
    once = names.insert(std::move(name)).second && once;
  });
  // Parsers differ in which of two members of one name they take, and in what they read of a text that is no JSON.
  if (!whole || !once) return nothing;
  facts.is_json = true;
  facts.stateful = facts.stateful || kept;
  return facts;
}

std::string_view determinism_of(const RequestFacts& facts) {
  if (facts.greedy) return "greedy";
  return facts.seeded ? "seeded" : "sampled";
}

std::string error_body(bool anthropic, int status, std::string_view message, std::string_view code,
                       std::string_view record_id) {
  std::string out;
  if (anthropic) {
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
