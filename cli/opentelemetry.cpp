#include "cli/opentelemetry.hpp"

#include "schema/clock.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::cli {

namespace {

struct Operation {
  std::string_view api, name, provider;
};
constexpr std::array kOperations = {
    Operation{"openai.chat", "chat", "openai"},
    Operation{"openai.completions", "text_completion", "openai"},
    Operation{"openai.responses", "chat", "openai"},
    Operation{"openai.embeddings", "embeddings", "openai"},
    Operation{"anthropic.messages", "chat", "anthropic"},
    Operation{"gemini.generate_content", "generate_content", "gcp.gen_ai"},
    Operation{"gemini.embed_content", "embeddings", "gcp.gen_ai"},
};

/// A leaf's member, and the attribute that says the same.
struct Renamed {
  std::string_view member, attribute;
};
constexpr std::array kReal = {
    Renamed{"temperature", "gen_ai.request.temperature"},
    Renamed{"top_p", "gen_ai.request.top_p"},
    Renamed{"frequency_penalty", "gen_ai.request.frequency_penalty"},
    Renamed{"presence_penalty", "gen_ai.request.presence_penalty"},
};
constexpr std::array kInteger = {
    Renamed{"max_tokens", "gen_ai.request.max_tokens"},
    Renamed{"max_completion_tokens", "gen_ai.request.max_tokens"},
    Renamed{"max_output_tokens", "gen_ai.request.max_tokens"},
    Renamed{"top_k", "gen_ai.request.top_k"},
    Renamed{"seed", "gen_ai.request.seed"},
    Renamed{"n", "gen_ai.request.choice.count"},
    Renamed{"candidate_count", "gen_ai.request.choice.count"},
    Renamed{"dimensions", "gen_ai.embeddings.dimension.count"},
    Renamed{"output_dimensionality", "gen_ai.embeddings.dimension.count"},
};
constexpr std::array kUpstream = {
    Renamed{"model", "gen_ai.response.model"},
    Renamed{"response_id", "gen_ai.response.id"},
    Renamed{"system_fingerprint", "openai.response.system_fingerprint"},
    Renamed{"service_tier", "openai.response.service_tier"},
};
constexpr std::array kUsage = {
    Renamed{"input_tokens", "gen_ai.usage.input_tokens"},
    Renamed{"output_tokens", "gen_ai.usage.output_tokens"},
    Renamed{"cache_read_input_tokens", "gen_ai.usage.cache_read.input_tokens"},
    Renamed{"cached_input_tokens", "gen_ai.usage.cache_read.input_tokens"},
    Renamed{"cache_creation_input_tokens", "gen_ai.usage.cache_creation.input_tokens"},
    Renamed{"reasoning_tokens", "gen_ai.usage.reasoning.output_tokens"},
};

/// A member of a member; null if it is not there.
Json at(const Json& leaf, std::string_view outer, std::string_view inner) {
  const auto found = leaf.is_object() ? leaf.find(outer) : leaf.end();
  if (!leaf.is_object() || found == leaf.end() || !found->is_object()) return {};
  const auto value = found->find(inner);
  return value == found->end() ? Json() : *value;
}

/// The whole text as a number; nothing if it is none.
template <class Number>
std::optional<Number> number(const Json& text) {
  if (!text.is_string()) return std::nullopt;
  const auto& digits = text.get_ref<const std::string&>();
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

void set_request(const Json& request, OrderedJson& attributes) {
  if (const Json model = at(request, "model", "requested"); model.is_string())
    attributes["gen_ai.request.model"] = model;
  for (const auto& [member, attribute] : kReal) {
    const auto value = number<double>(at(request, "params", member));
    if (value && std::isfinite(*value)) attributes[std::string(attribute)] = *value;
  }
  for (const auto& [member, attribute] : kInteger) {
    const auto value = number<std::int64_t>(at(request, "params", member));
    // One choice is what everybody asks for: the conventions leave it out.
    const bool one_choice = attribute == "gen_ai.request.choice.count" && value == 1;
    if (value && !one_choice) attributes[std::string(attribute)] = *value;
  }
  if (const Json stream = at(request, "params", "stream"); stream == "true" || stream == "false")
    attributes["gen_ai.request.stream"] = stream == "true";
  if (const Json format = at(request, "params", "encoding_format"); format.is_string())
    attributes["gen_ai.request.encoding_formats"] = OrderedJson::array({format});
  if (const Json agent = at(request, "client", "user_agent"); agent.is_string())
    attributes["user_agent.original"] = agent;
}

void set_response(const Json& response, OrderedJson& attributes) {
  for (const auto& [member, attribute] : kUpstream) {
    if (const Json value = at(response, "upstream", member); value.is_string())
      attributes[std::string(attribute)] = value;
  }
  if (const Json address = at(response, "upstream", "address"); address.is_string())
    attributes["network.peer.address"] = address;
  if (const Json finish = response.value("finish", Json()); finish.is_array())
    attributes["gen_ai.response.finish_reasons"] = finish;
  for (const auto& [member, attribute] : kUsage) {
    if (const Json value = at(response, "usage", member); value.is_number_integer())
      attributes[std::string(attribute)] = value;
  }
  const Json first = at(response, "timing", "first_byte_us");
  if (response.contains("stream") && first.is_number())
    attributes["gen_ai.response.time_to_first_chunk"] = first.get<double>() / 1e6;
  if (const Json status = response.value("http_status", Json()); status.is_number_integer())
    attributes["http.response.status_code"] = status;
  if (const Json kind = at(response, "error", "kind"); kind.is_string())
    attributes["error.type"] = kind;
  for (const char* member : {"status", "cache", "origin"}) {
    if (const Json value = response.value(member, Json()); value.is_string())
      attributes[std::string("verbatim.") + member] = value;
  }
  for (const char* member : {"numerics_profile", "backend", "build", "weights_sha256"}) {
    if (const Json value = at(response, "engine", member); value.is_string())
      attributes[std::string("verbatim.engine.") + member] = value;
  }
}

/// W3C Trace Context: version-trace-parent-flags.
void set_trace(const Json& traceparent, OrderedJson& span) {
  if (!traceparent.is_string()) return;
  const auto& text = traceparent.get_ref<const std::string&>();
  constexpr std::size_t kBytes = 55;
  if (text.size() < kBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return;
  const std::string trace = text.substr(3, 32), parent = text.substr(36, 16);
  const auto is_id = [](const std::string& id) {
    return id.find_first_not_of("0123456789abcdef") == std::string::npos &&
           id.find_first_not_of('0') != std::string::npos;
  };
  if (!is_id(trace) || !is_id(parent)) return;
  span["trace_id"] = trace;
  span["parent_span_id"] = parent;
}

/// As OTLP's JSON has 64-bit numbers: decimal text.
std::string nanoseconds(std::int64_t us) { return std::to_string(us * 1000); }

}  // namespace

OrderedJson opentelemetry_span(const Json& request, const Json& response) {
  const Json api = at(request, "route", "api"), upstream = at(request, "route", "upstream");
  const std::string spoken = api.is_string() ? api.get<std::string>() : "";
  const auto operation = std::find_if(kOperations.begin(), kOperations.end(),
                                      [&](const Operation& each) { return spoken == each.api; });
  OrderedJson attributes = OrderedJson::object();
  std::string name;
  if (operation != kOperations.end()) {
    name = operation->name;
    attributes["gen_ai.operation.name"] = operation->name;
    attributes["gen_ai.provider.name"] = upstream == "local" ? "verbatim" : operation->provider;
  }
  set_request(request, attributes);
  if (attributes.contains("gen_ai.request.model"))
    name += (name.empty() ? "" : " ") + attributes["gen_ai.request.model"].get<std::string>();
  if (response.is_object()) set_response(response, attributes);
  if (const Json id = request.value("id", Json()); id.is_string())
    attributes["verbatim.record.id"] = id;
  OrderedJson span = {{"name", name.empty() ? "exchange" : name}, {"kind", "CLIENT"}};
  set_trace(at(request, "client", "traceparent"), span);
  const Json time = request.value("time", Json());
  const auto start_us = parse_rfc3339(time.is_string() ? time.get<std::string>() : "");
  const Json total = at(response, "timing", "total_us");
  if (start_us) {
    span["start_time_unix_nano"] = nanoseconds(*start_us);
    if (total.is_number_integer())
      span["end_time_unix_nano"] = nanoseconds(*start_us + total.get<std::int64_t>());
  }
  span["attributes"] = std::move(attributes);
  return span;
}

}  // namespace verbatim::cli
