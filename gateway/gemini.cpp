#include "gateway/gemini.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace verbatim::gateway {

namespace {

struct Method {
  std::string_view name;
  Api api;
};
constexpr std::string_view kStreaming = "streamGenerateContent";
constexpr std::array kMethods = {
    Method{"generateContent", Api::gemini_generate_content},
    Method{kStreaming, Api::gemini_generate_content},
    Method{"countTokens", Api::gemini_count_tokens},
    Method{"embedContent", Api::gemini_embed_content},
    Method{"batchEmbedContents", Api::gemini_embed_content},
};

/// Members of generationConfig that decide what is sampled.
constexpr std::array<std::string_view, 16> kConfigParams = {"temperature",
                                                            "top_p",
                                                            "top_k",
                                                            "seed",
                                                            "max_output_tokens",
                                                            "candidate_count",
                                                            "stop_sequences",
                                                            "presence_penalty",
                                                            "frequency_penalty",
                                                            "response_logprobs",
                                                            "logprobs",
                                                            "response_mime_type",
                                                            "response_schema",
                                                            "response_json_schema",
                                                            "response_modalities",
                                                            "thinking_config"};
/// Of a request for an embedding.
constexpr std::array<std::string_view, 3> kEmbedParams = {"task_type", "output_dimensionality",
                                                          "auto_truncate"};
constexpr std::size_t kParamBytesMax = 512;

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

/// Takes the last segment off a path.
std::string_view take_last_segment(std::string_view& path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
  return last;
}

/// The model of ".../models/x" and its like; "" if it is of no collection of models.
std::string model_of_resource(std::string_view resource) {
  const std::string id(take_last_segment(resource));
  const std::string_view collection = take_last_segment(resource);
  if (id.empty()) return "";
  if (same_word(collection, "tunedModels")) return "tunedModels/" + id;
  if (same_word(collection, "endpoints")) return "endpoints/" + id;
  if (!same_word(collection, "models")) return "";
  const std::string publisher(take_last_segment(resource));
  const bool published = same_word(take_last_segment(resource), "publishers");
  return published && publisher != "google" ? "publishers/" + publisher + "/models/" + id : id;
}

void take_param(std::string_view name, std::string_view value, RequestFacts& facts) {
  const auto text = json_string(value);
  facts.params.emplace_back(name, leaf_text(text ? *text : std::string(value), kParamBytesMax));
}

void take_model(std::string_view value, RequestFacts& facts) {
  const std::string model = short_model_name(json_string(value).value_or(""));
  if (model.empty()) return;
  if (facts.model.empty()) facts.model = model;
  if (facts.model != model) facts.two_models = true;
}

/// Visits the members of an object by proto_name(). False if a name comes twice, in either of its forms.
bool each_named(std::string_view object,
                const std::function<void(std::string_view, std::string_view)>& visit) {
  std::set<std::string> names;
  bool once = true;
  each_member(object, [&](const JsonMember& member) {
    std::string name = proto_name(member_name(member));
    visit(name, member.value);
    once = names.insert(std::move(name)).second && once;
  });
  return once;
}

bool read_config(std::string_view config, RequestFacts& facts) {
  return each_named(config, [&](std::string_view name, std::string_view value) {
    // A number may also be sent as a text.
    if (name == "temperature")
      facts.greedy = is_zero(json_string(value).value_or(std::string(value)));
    if (name == "seed") facts.seeded = value != "null";
    if (std::find(kConfigParams.begin(), kConfigParams.end(), name) != kConfigParams.end()) {
      take_param(name, value, facts);
    }
  });
}

bool read_inner_model(std::string_view request, RequestFacts& facts) {
  return each_named(request, [&](std::string_view name, std::string_view value) {
    if (name == "model") take_model(value, facts);
  });
}

}  // namespace

std::optional<MethodCall> method_call_of(std::string_view path) {
  if (path.find_first_of(":%") == std::string_view::npos) return std::nullopt;
  const std::string decoded = percent_decoded(path);
  const std::size_t colon = decoded.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  MethodCall call{model_of_resource(std::string_view(decoded).substr(0, colon)),
                  decoded.substr(colon + 1)};
  if (call.model.empty() || !is_word(call.method)) return std::nullopt;
  return call;
}

bool ends_with_gemini_method(std::string_view path) {
  const std::size_t colon = path.rfind(':');
  return colon != std::string_view::npos && api_of_gemini_method(path.substr(colon + 1));
}

std::optional<Api> api_of_gemini_method(std::string_view method) {
  for (const Method& each : kMethods) {
    if (same_word(each.name, method)) return each.api;
  }
  return std::nullopt;
}

bool is_streaming_method(std::string_view method) { return same_word(method, kStreaming); }

bool read_gemini_member(std::string_view name, std::string_view value, RequestFacts& facts) {
  if (name == "generation_config") return read_config(value, facts);
  if (name == "generate_content_request") return read_inner_model(value, facts);
  if (name == "model") take_model(value, facts);
  if (name == "cached_content") facts.stateful = json_string(value).value_or("") != "";
  if (std::find(kEmbedParams.begin(), kEmbedParams.end(), name) != kEmbedParams.end()) {
    take_param(name, value, facts);
  }
  bool once = true;
  if (name == "requests") {
    each_item(value, [&](std::string_view each) { once = read_inner_model(each, facts) && once; });
  }
  return once;
}

std::string proto_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper) out.push_back('_');
    out.push_back(upper ? static_cast<char>(c + 32) : c);
  }
  return out;
}

std::string short_model_name(std::string_view name) {
  const std::string model = model_of_resource(name);
  return model.empty() ? std::string(name) : model;
}

std::string_view google_status(int http_status) {
  switch (http_status) {
    case 401:
      return "UNAUTHENTICATED";
    case 403:
      return "PERMISSION_DENIED";
    case 404:
      return "NOT_FOUND";
    case 429:
      return "RESOURCE_EXHAUSTED";
    case 408:
    case 504:
      return "DEADLINE_EXCEEDED";
    case 501:
      return "UNIMPLEMENTED";
    case 502:
    case 503:
      return "UNAVAILABLE";
    default:
      return http_status < 500 ? "INVALID_ARGUMENT" : "INTERNAL";
  }
}

}  // namespace verbatim::gateway
