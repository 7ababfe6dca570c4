#include "replay/answer_stream.hpp"

#include "gateway/sse.hpp"
#include "replay/recorded.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace verbatim::replay {

namespace {

using gateway::Api;

const char* const kBehindTheEnd = "behind the end";

bool is_among(const Json& value, std::initializer_list<std::string_view> allowed) {
  return value.is_string() && std::find(allowed.begin(), allowed.end(),
                                        value.get_ref<const std::string&>()) != allowed.end();
}

/// The first member that is none of these and says something.
std::string other_member(const Json& object, std::initializer_list<std::string_view> allowed) {
  for (const auto& [name, value] : object.items()) {
    const bool known = std::find(allowed.begin(), allowed.end(), name) != allowed.end();
    if (!known && !says_nothing(value)) return name;
  }
  return "";
}

/// Chat and completions.
class OpenaiStream {
 public:
  explicit OpenaiStream(bool chat) : chat_(chat) {}

  std::string take(std::string_view event, std::string_view data) {
    if (done_) return kBehindTheEnd;
    if (!event.empty() && event != "message") return "event " + std::string(event);
    if (data.empty()) return "";
    done_ = data == "[DONE]";
    if (done_) return "";
    const auto chunk = parse_json(data);
    if (!chunk || !chunk->is_object()) return "an event that is no object";
    for (const auto& [name, value] : chunk->items()) {
      if (name != "choices" && !is_silent_member(name) && !says_nothing(value)) return name;
    }
    const auto choices = chunk->find("choices");
    if (choices == chunk->end() || !choices->is_array()) return "an event without choices";
    for (const Json& choice : *choices) {
      if (std::string beside = take_choice(choice); !beside.empty()) return beside;
    }
    return "";
  }

 private:
  std::string take_choice(const Json& choice) {
    if (!choice.is_object()) return "a choice that is no object";
    const Json index = choice.value("index", Json(0));
    const bool ended = ended_.count(index) > 0;
    const std::string_view piece = chat_ ? "delta" : "text";
    for (const auto& [name, value] : choice.items()) {
      if (name == piece || is_silent_choice_member(name) || says_nothing(value)) continue;
      return name;
    }
    const Json said = choice.value(std::string(piece), Json());
    if (ended && says_something(said)) return kBehindTheEnd;
    if (!chat_ && !said.is_string() && !said.is_null()) return "text";
    if (chat_ && !says_nothing(said)) {
      if (!said.is_object()) return "delta";
      if (std::string other = other_member(said, {"role", "content"}); !other.empty()) return other;
      const Json content = said.value("content", Json()), role = said.value("role", Json());
      if (!content.is_string() && !content.is_null()) return "content";
      if (!says_nothing(role) && role != "assistant") return "role";
    }
    if (!says_nothing(choice.value("finish_reason", Json()))) ended_.insert(index);
    return "";
  }
  /// The last chunk of some servers repeats the role.
  static bool says_something(const Json& said) {
    return said.is_object() ? !other_member(said, {"role"}).empty() : !says_nothing(said);
  }

  bool chat_, done_ = false;
  std::set<Json> ended_;
};

class AnthropicStream {
 public:
  std::string take(std::string_view event, std::string_view data) {
    if (data.empty()) return "";
    const auto json = parse_json(data);
    if (!json || !json->is_object()) return "an event that is no object";
    const std::string type = text_at(*json, {"type"});
    if (!event.empty() && event != type) return "event " + std::string(event);
    if (type == "ping") return other_member(*json, {"type"});
    if (done_) return kBehindTheEnd;
    if (type == "message_start") return begin(*json);
    if (!begun_) return "an event before message_start";
    if (type == "content_block_start") return begin_block(*json);
    if (type == "content_block_delta") return take_delta(*json);
    if (type == "content_block_stop") {
      const bool open = std::exchange(open_, false);
      if (!open || json->value("index", Json()) != block_) return "a block ended that was not open";
      ++block_;
      return other_member(*json, {"type", "index"});
    }
    if (open_) return type;  // between two deltas of a text
    if (type == "message_delta") {
      const Json delta = json->value("delta", Json::object());
      if (!delta.is_object()) return "delta";
      std::string other = other_member(delta, {"stop_reason", "stop_sequence", "container"});
      if (!other.empty()) return other;
      return other_member(*json, {"type", "delta", "usage", "context_management"});
    }
    done_ = type == "message_stop";
    return done_ ? other_member(*json, {"type"}) : type.empty() ? "an event without a type" : type;
  }

 private:
  std::string begin(const Json& event) {
    if (std::exchange(begun_, true)) return "message_start";
    const Json message = event.value("message", Json());
    if (!message.is_object()) return "message_start";
    if (!says_nothing(message.value("content", Json()))) return "content of message_start";
    for (const auto& [name, value] : message.items()) {
      if (name != "type" && name != "role" && name != "content" && !is_silent_member(name) &&
          !says_nothing(value)) {
        return name;
      }
    }
    return other_member(event, {"type", "message"});
  }
  std::string begin_block(const Json& event) {
    if (std::exchange(open_, true) || event.value("index", Json()) != block_)
      return "content_block_start";
    const Json block = event.value("content_block", Json());
    if (text_at(block, {"type"}) != "text") return text_at(block, {"type"});
    return other_member(block, {"type", "text"});
  }
  std::string take_delta(const Json& event) {
    if (!open_ || event.value("index", Json()) != block_)
      return "a delta of a block that is not open";
    const Json delta = event.value("delta", Json());
    if (!delta.is_object() || !is_among(delta.value("type", Json()), {"text_delta"})) {
      return delta.is_object() ? text_at(delta, {"type"}) : "delta";
    }
    if (!delta.value("text", Json()).is_string()) return "text_delta";
    if (std::string other = other_member(delta, {"type", "text"}); !other.empty()) return other;
    return other_member(event, {"type", "index", "delta"});
  }

  bool begun_ = false, open_ = false, done_ = false;
  std::size_t block_ = 0;
};

template <class Reader>
std::string read(Reader reader, std::string_view stream) {
  gateway::SseScanner scanner;
  scanner.push(stream);
  std::size_t end = 0;
  for (const gateway::EventSpan& span : scanner.take_events()) {
    end = span.end;
    const auto event = gateway::parse_sse_event(stream.substr(span.begin, span.end - span.begin));
    std::string beside = reader.take(event.event(), event.data());
    if (!beside.empty()) return beside;
  }
  const std::string_view rest = stream.substr(std::min(end, stream.size()));
  const auto unfinished = gateway::parse_sse_event(rest);
  return unfinished.data().empty() ? "" : "an event that does not end";
}

}  // namespace

std::string beside_in_stream(Api api, std::string_view stream) {
  if (api == Api::anthropic_messages) return read(AnthropicStream(), stream);
  return read(OpenaiStream(api == Api::openai_chat), stream);
}

bool says_nothing(const Json& value) {
  return value.empty() || value.is_number() || value.is_boolean() ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

bool is_silent_member(std::string_view name) {
  static constexpr std::array kSilent = {"id",
                                         "object",
                                         "created",
                                         "model",
                                         "usage",
                                         "type",
                                         "role",
                                         "stop_reason",
                                         "stop_sequence",
                                         "container",
                                         "timings",
                                         "service_tier",
                                         "prompt_logprobs",
                                         "metadata",
                                         "system_fingerprint",
                                         "provider",
                                         "prompt_token_ids",
                                         "prompt_filter_results",
                                         "x_groq",
                                         "kv_transfer_params",
                                         "obfuscation",
                                         "usage_breakdown",
                                         "context_management",
                                         "stats",
                                         "nvext"};
  return std::find(kSilent.begin(), kSilent.end(), name) != kSilent.end();
}

bool is_silent_choice_member(std::string_view name) {
  static constexpr std::array kSilent = {
      "index",        "finish_reason",    "logprobs",        "stop_reason",
      "seed",         "token_ids",        "prompt_logprobs", "content_filter_results",
      "matched_stop", "prompt_token_ids", "hidden_states",   "native_finish_reason"};
  return std::find(kSilent.begin(), kSilent.end(), name) != kSilent.end();
}

}  // namespace verbatim::replay
