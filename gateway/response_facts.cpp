#include "gateway/response_facts.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/sse.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::size_t kFactBytesMax = 256;
constexpr std::size_t kFactsMax = 48;
constexpr std::size_t kChoicesMax = 256;
constexpr std::int64_t kExactMax = std::int64_t{1} << 53;

/// Response headers worth a member of their own in the leaf; all headers are in the contents
/// anyway.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kHeaders = {{
    {"x-request-id", "request_id"},
    {"request-id", "request_id"},
    {"openai-version", "version"},
    {"openai-processing-ms", "processing_ms"},
    {"server", "server"},
    {"cf-ray", "cf_ray"},
}};

/// Counts in Google's usageMetadata. Those of a stream are of all that came so far.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kGeminiUsage = {{
    {"promptTokenCount", "input_tokens"},
    {"candidatesTokenCount", "output_tokens"},
    {"totalTokenCount", "total_tokens"},
    {"cachedContentTokenCount", "cached_input_tokens"},
    {"thoughtsTokenCount", "reasoning_tokens"},
    {"toolUsePromptTokenCount", "tool_use_input_tokens"},
}};

/// What an enumeration says that says nothing: absent, or its zero ("FINISH_REASON_UNSPECIFIED").
bool is_unspecified(std::string_view reason) {
  return reason.empty() || reason.ends_with("_UNSPECIFIED");
}

/// The names under which the APIs report the same counts.
std::string normal_usage_name(std::string_view name) {
  if (name == "prompt_tokens") return "input_tokens";
  if (name == "completion_tokens") return "output_tokens";
  if (name == "prompt_tokens_details.cached_tokens" ||
      name == "input_tokens_details.cached_tokens") {
    return "cached_input_tokens";
  }
  if (name == "completion_tokens_details.reasoning_tokens" ||
      name == "output_tokens_details.reasoning_tokens") {
    return "reasoning_tokens";
  }
  return leaf_text(name, 64);
}

}  // namespace

void ResponseFacts::set(std::map<std::string, std::string>& where, std::string_view name,
                        std::string_view value) {
  if (value.empty() || where.size() >= kFactsMax) return;
  where.insert_or_assign(std::string(name), leaf_text(value, kFactBytesMax));
}

void ResponseFacts::read_head(const ResponseHead& head) {
  for (const auto& [header, name] : kHeaders) {
    if (const std::string* value = head.fields.find(header); value != nullptr) {
      set(upstream_, name, *value);
    }
  }
}

void ResponseFacts::read_json(std::string_view body) {
  if (api_ == Api::openai_models || api_ == Api::generic) return;
  const std::size_t begin = std::min(body.find_first_not_of(" \t\r\n"), body.size());
  if (api_ != Api::gemini_generate_content || body.substr(begin, 1) != "[")
    return read_object(body);
  cut_array_ = !each_item(body, [&](std::string_view item) {
    ++events_;
    read_object(item);
  });
}

void ResponseFacts::read_object(std::string_view object) {
  if (is_gemini(api_)) return read_gemini(object);
  each_member(object, [&](const JsonMember& member) {
    const auto& [key, value, whole] = member;
    if (key == "id") set(upstream_, "response_id", json_string(value).value_or(""));
    if (key == "model" || key == "system_fingerprint" || key == "service_tier") {
      set(upstream_, key, json_string(value).value_or(""));
    }
    if (key == "usage") read_usage(value, "");
    if (key == "input_tokens" && api_ == Api::anthropic_count_tokens) {
      set_usage("counted_tokens", value);
    }
    if (key == "choices") read_choices(value);
    if (key == "error" && value != "null") error_event_ = true;
    // Anthropic: the message inside message_start, the delta of message_delta. Responses: the
    // response.
    if (key == "message" || key == "response") read_object(value);
    if (key == "delta" && api_ == Api::anthropic_messages) read_object(value);
    if (key == "stop_reason") {
      if (const auto reason = json_string(value)) finish_[0] = leaf_text(*reason, 64);
    }
    if (key == "status" && api_ == Api::openai_responses) {
      const auto status = json_string(value).value_or("");
      if (status == "completed" || status == "incomplete" || status == "failed") {
        finish_[0] = status;
      }
    }
  });
}

void ResponseFacts::read_choices(std::string_view array) {
  std::int64_t position = 0;
  each_item(array, [&](std::string_view choice) {
    std::int64_t index = position++;
    std::string reason;
    each_member(choice, [&](const JsonMember& member) {
      if (member.key == "index") index = json_integer(member.value).value_or(index);
      if (member.key == "finish_reason") reason = json_string(member.value).value_or("");
    });
    if (!reason.empty() && finish_.size() < kChoicesMax) finish_[index] = leaf_text(reason, 64);
  });
}

void ResponseFacts::read_usage(std::string_view object, std::string_view prefix) {
  each_member(object, [&](const JsonMember& member) {
    const std::string name = std::string(prefix) + std::string(member.key);
    if (member.value.starts_with('{') && prefix.empty()) {
      read_usage(member.value, name + ".");
    } else {
      set_usage(normal_usage_name(name), member.value);
    }
  });
}

void ResponseFacts::set_usage(const std::string& name, std::string_view value) {
  const auto number = json_integer(value);
  if (!number || *number < 0 || *number > kExactMax || usage_.size() >= kFactsMax) return;
  usage_[name] = *number;
}

void ResponseFacts::read_gemini(std::string_view object) {
  each_member(object, [&](const JsonMember& member) {
    const auto& [key, value, whole] = member;
    if (key == "candidates") read_candidates(value);
    if (key == "usageMetadata") read_gemini_usage(value);
    if (key == "modelVersion") set(upstream_, "model", json_string(value).value_or(""));
    if (key == "responseId") set(upstream_, "response_id", json_string(value).value_or(""));
    if (key == "error" && value != "null") error_event_ = true;
    if (key == "totalTokens" && api_ == Api::gemini_count_tokens)
      set_usage("counted_tokens", value);
    if (key == "promptFeedback") {
      each_member(value, [&](const JsonMember& inner) {
        const auto reason = json_string(inner.value).value_or("");
        if (inner.key != "blockReason" || is_unspecified(reason)) return;
        blocked_ = true;
        set(upstream_, "block_reason", reason);
      });
    }
  });
}

void ResponseFacts::read_candidates(std::string_view array) {
  std::int64_t position = 0;
  each_item(array, [&](std::string_view candidate) {
    std::int64_t index = position++;
    std::string reason;
    each_member(candidate, [&](const JsonMember& member) {
      if (member.key == "index") index = json_integer(member.value).value_or(index);
      if (member.key == "finishReason") reason = json_string(member.value).value_or("");
    });
    if (!is_unspecified(reason)) {
      open_.erase(index);
      if (finish_.size() < kChoicesMax) finish_[index] = leaf_text(reason, 64);
    } else if (finish_.find(index) == finish_.end() && open_.size() < kChoicesMax) {
      open_.insert(index);
    }
  });
}

void ResponseFacts::read_gemini_usage(std::string_view object) {
  each_member(object, [&](const JsonMember& member) {
    for (const auto& [theirs, name] : kGeminiUsage) {
      if (member.key == theirs) set_usage(std::string(name), member.value);
    }
  });
}

void ResponseFacts::read_event(std::string_view text) {
  const SseEvent event = parse_sse_event(text);
  ++events_;
  if (event.data() == "[DONE]" || event.event() == "message_stop" ||
      event.event() == "response.completed" || event.event() == "response.incomplete" ||
      event.event() == "response.failed") {
    terminal_ = true;
  }
  if (event.event() == "error") error_event_ = true;
  if (!event.data().empty()) ++data_events_;
  if (event.data().starts_with('{')) read_object(event.data());
}

void ResponseFacts::read_stream(std::string_view body) {
  SseScanner scanner;
  scanner.push(body);
  for (const EventSpan& span : scanner.take_events()) {
    read_event(body.substr(span.begin, span.end - span.begin));
  }
}

void ResponseFacts::describe(Json& leaf) const {
  if (!upstream_.empty()) {
    Json& upstream = leaf["upstream"];
    for (const auto& [name, value] : upstream_) upstream[name] = value;
  }
  if (!usage_.empty()) {
    Json& usage = leaf["usage"];
    for (const auto& [name, value] : usage_) usage[name] = value;
  }
  if (!finish_.empty()) {
    Json finish = Json::array();
    for (const auto& [index, reason] : finish_) finish.push_back(reason);
    leaf["finish"] = std::move(finish);
  }
}

}  // namespace verbatim::gateway
