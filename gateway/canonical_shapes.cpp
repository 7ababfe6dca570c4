// Whole answers and streams of the same answer, for both APIs.

#include "gateway/canonical_output.hpp"
#include "gateway/sse.hpp"
#include "schema/json.hpp"
#include "schema/ordered_json.hpp"

#include <map>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace {

using Ordered = nlohmann::ordered_json;

Error not_an_answer(std::string_view api) {
  return {Errc::invalid_input, "the recorded body is no " + std::string(api) + " answer", "", ""};
}

/// The object in `text`, or null.
Ordered parse_object(std::string_view text) {
  auto value = parse_ordered_json(text);
  return value && value->is_object() ? std::move(*value) : Ordered(nullptr);
}

void append_event(std::string& out, const Ordered& data, std::string_view name = "") {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(data.dump()).append("\n\n");
}

/// Calls `visit` with the JSON object of every data event; false if one is no object or none came.
template <class Visit>
bool each_data_object(std::string_view stream, Visit visit) {
  SseScanner scanner;
  scanner.push(stream);
  bool any = false;
  for (const EventSpan& span : scanner.take_events()) {
    const SseEvent event = parse_sse_event(stream.substr(span.begin, span.end - span.begin));
    if (event.data().empty() || event.data() == "[DONE]") continue;
    Ordered object = parse_object(event.data());
    if (object.is_null()) return false;
    visit(object);
    any = true;
  }
  return any;
}

/// All members but those named.
Ordered without(const Ordered& object, std::initializer_list<std::string_view> names) {
  Ordered out = Ordered::object();
  for (const auto& [key, value] : object.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) out[key] = value;
  }
  return out;
}

// ---- OpenAI, whole to stream

class OpenaiStream {
 public:
  OpenaiStream(Ordered base, bool include_usage)
      : base_(std::move(base)), include_usage_(include_usage) {}

  void chunk(Ordered choice) {
    Ordered chunk = base_;
    chunk["choices"] = Ordered::array({std::move(choice)});
    if (include_usage_) chunk["usage"] = nullptr;
    append_event(out_, chunk);
  }
  std::string finish(const Ordered& usage) {
    if (include_usage_ && !usage.is_null()) {
      Ordered chunk = base_;
      chunk["choices"] = Ordered::array();
      chunk["usage"] = usage;
      append_event(out_, chunk);
    }
    return std::move(out_) + "data: [DONE]\n\n";
  }

 private:
  Ordered base_;
  bool include_usage_;
  std::string out_;
};

void stream_chat_choice(OpenaiStream& stream, const Ordered& choice, std::int64_t index) {
  const Ordered message = choice.value("message", Ordered::object());
  const auto put = [&](Ordered delta, Ordered logprobs, Ordered finish) {
    stream.chunk({{"index", index},
                  {"delta", std::move(delta)},
                  {"logprobs", std::move(logprobs)},
                  {"finish_reason", std::move(finish)}});
  };
  put({{"role", message.value("role", "assistant")}, {"content", ""}}, nullptr, nullptr);
  Ordered logprobs = choice.value("logprobs", Ordered());
  for (const auto& [key, value] : message.items()) {
    if (key == "role" || value.is_null() || (value.is_array() && value.empty())) continue;
    Ordered delta = Ordered::object();
    if (key == "tool_calls" && value.is_array()) {
      delta[key] = Ordered::array();
      std::int64_t call_index = 0;
      for (const Ordered& call : value) {
        Ordered indexed = {{"index", call_index++}};
        indexed.update(call);
        delta[key].push_back(std::move(indexed));
      }
    } else {
      if (value == "") continue;
      delta[key] = value;
    }
    put(std::move(delta), key == "content" ? std::exchange(logprobs, nullptr) : Ordered(), nullptr);
  }
  put(Ordered::object(), std::move(logprobs), choice.value("finish_reason", Ordered()));
}

// ---- OpenAI, stream to whole

/// Appends what a delta adds: strings are pieces, calls are merged by index, the rest is set.
void merge_delta(Ordered& message, const Ordered& delta) {
  for (const auto& [key, value] : delta.items()) {
    if (key == "tool_calls" && value.is_array()) {
      Ordered& calls = message[key];
      if (!calls.is_array()) calls = Ordered::array();
      for (const Ordered& piece : value) {
        const auto index = piece.value("index", std::size_t{0});
        if (index > 1024) continue;
        while (calls.size() <= index) calls.push_back(Ordered::object());
        merge_delta(calls[index], without(piece, {"index"}));
      }
    } else if (value.is_string() && key != "role" && key != "id" && key != "type" &&
               message.contains(key) && message[key].is_string()) {
      message[key] = message[key].get<std::string>() + value.get<std::string>();
    } else if (value.is_object() && message.contains(key) && message[key].is_object()) {
      merge_delta(message[key], value);
    } else if (!value.is_null() || !message.contains(key)) {
      message[key] = value;
    }
  }
}

/// Log-probabilities come as lists, one member each: the pieces are joined.
void merge_logprobs(Ordered& to, const Ordered& piece) {
  if (!piece.is_object()) return;
  if (!to.is_object()) to = Ordered::object();
  for (const auto& [key, value] : piece.items()) {
    if (value.is_array() && to.contains(key) && to[key].is_array()) {
      for (const Ordered& item : value) to[key].push_back(item);
    } else if (!value.is_null() || !to.contains(key)) {
      to[key] = value;
    }
  }
}

void merge_choice(Api api, std::map<std::int64_t, Ordered>& choices, const Ordered& piece) {
  if (!piece.is_object() || choices.size() > 1024) return;
  const auto index = piece.value("index", std::int64_t{0});
  Ordered& choice = choices[index];
  if (choice.is_null()) {
    choice = {{"index", index}};
    choice[api == Api::openai_chat ? "message" : "text"] =
        api == Api::openai_chat ? Ordered::object() : Ordered("");
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = nullptr;
  }
  if (api == Api::openai_chat) {
    merge_delta(choice["message"], piece.value("delta", Ordered::object()));
  } else {
    choice["text"] = choice["text"].get<std::string>() + piece.value("text", std::string());
  }
  if (piece.contains("logprobs")) merge_logprobs(choice["logprobs"], piece["logprobs"]);
  if (piece.contains("finish_reason") && !piece["finish_reason"].is_null()) {
    choice["finish_reason"] = piece["finish_reason"];
  }
}

// ---- Anthropic

Ordered block_start(const Ordered& block) {
  Ordered start = block;
  const std::string type = block.value("type", std::string());
  if (type == "text") start["text"] = "";
  if (type == "tool_use") start["input"] = Ordered::object();
  if (type == "thinking") {
    start["thinking"] = "";
    start["signature"] = "";
  }
  return start;
}

std::vector<Ordered> block_deltas(const Ordered& block) {
  const std::string type = block.value("type", std::string());
  std::vector<Ordered> deltas;
  if (type == "text") {
    deltas.push_back({{"type", "text_delta"}, {"text", block.value("text", std::string())}});
  } else if (type == "tool_use") {
    deltas.push_back({{"type", "input_json_delta"},
                      {"partial_json", block.value("input", Ordered::object()).dump()}});
  } else if (type == "thinking") {
    deltas.push_back(
        {{"type", "thinking_delta"}, {"thinking", block.value("thinking", std::string())}});
    deltas.push_back(
        {{"type", "signature_delta"}, {"signature", block.value("signature", std::string())}});
  }
  return deltas;
}

void merge_block_delta(Ordered& block, std::string& partial_json, const Ordered& delta) {
  const std::string type = delta.value("type", std::string());
  const auto add = [&](const char* key) {
    block[key] = block.value(key, std::string()) + delta.value(key, std::string());
  };
  if (type == "text_delta") add("text");
  if (type == "thinking_delta") add("thinking");
  if (type == "signature_delta") add("signature");
  if (type == "input_json_delta") partial_json += delta.value("partial_json", std::string());
  if (type == "citations_delta" && delta.contains("citation")) {
    if (!block.contains("citations") || !block["citations"].is_array()) {
      block["citations"] = Ordered::array();
    }
    block["citations"].push_back(delta["citation"]);
  }
}

/// A message as its events tell it.
struct AnthropicMessage {
  Ordered message;
  std::map<std::size_t, Ordered> blocks;
  std::map<std::size_t, std::string> partial_json;

  void take(const Ordered& event) {
    const std::string type = event.value("type", std::string());
    const auto index = event.value("index", std::size_t{0});
    if (type == "message_start") message = event.value("message", Ordered::object());
    if (type == "content_block_start") {
      blocks[index] = event.value("content_block", Ordered::object());
    }
    if (type == "content_block_delta" && blocks.count(index) > 0) {
      merge_block_delta(blocks[index], partial_json[index],
                        event.value("delta", Ordered::object()));
    }
    if (type == "message_delta" && message.is_object()) {
      message.update(event.value("delta", Ordered::object()));
      // Cumulative: what is told again replaces what was told before.
      Ordered usage = message.value("usage", Ordered::object());
      usage.update(event.value("usage", Ordered::object()));
      message["usage"] = std::move(usage);
    }
  }
};

/// ordered_json throws type_error when a member has another type than asked for: a recorded answer
/// may be anything.
template <class Build>
Result<std::string> guarded(std::string_view api, Build build) {
  try {
    return build();
  } catch (const Ordered::exception&) {
    return not_an_answer(api);
  }
}

}  // namespace

Result<std::string> openai_stream_of(Api api, std::string_view whole_text, bool include_usage) {
  return guarded("OpenAI", [&]() -> Result<std::string> {
    const Ordered whole = parse_object(whole_text);
    if (whole.is_null() || !whole.contains("choices")) return not_an_answer("OpenAI");
    Ordered base = without(whole, {"choices", "usage"});
    if (api == Api::openai_chat) base["object"] = "chat.completion.chunk";
    OpenaiStream stream(std::move(base), include_usage);
    std::int64_t position = 0;
    for (const Ordered& choice : whole["choices"]) {
      const auto index = choice.value("index", position++);
      if (api == Api::openai_chat) {
        stream_chat_choice(stream, choice, index);
        continue;
      }
      Ordered text = without(choice, {"finish_reason"});
      text["finish_reason"] = nullptr;
      stream.chunk(std::move(text));
      stream.chunk({{"text", ""},
                    {"index", index},
                    {"logprobs", nullptr},
                    {"finish_reason", choice.value("finish_reason", Ordered())}});
    }
    return stream.finish(whole.value("usage", Ordered()));
  });
}

Result<std::string> openai_whole_of(Api api, std::string_view stream) {
  return guarded("OpenAI", [&]() -> Result<std::string> {
    Ordered whole;
    Ordered usage;
    std::map<std::int64_t, Ordered> choices;
    const bool good = each_data_object(stream, [&](const Ordered& chunk) {
      if (whole.is_null()) whole = without(chunk, {"choices", "usage", "obfuscation"});
      if (chunk.contains("usage") && chunk["usage"].is_object()) usage = chunk["usage"];
      for (const Ordered& piece : chunk.value("choices", Ordered::array())) {
        merge_choice(api, choices, piece);
      }
    });
    if (!good || choices.empty()) return not_an_answer("OpenAI");
    if (api == Api::openai_chat) whole["object"] = "chat.completion";
    whole["choices"] = Ordered::array();
    for (auto& [index, choice] : choices) whole["choices"].push_back(std::move(choice));
    if (!usage.is_null()) whole["usage"] = std::move(usage);
    return whole.dump();
  });
}

Result<std::string> anthropic_stream_of(std::string_view whole_text) {
  return guarded("Anthropic", [&]() -> Result<std::string> {
    const Ordered whole = parse_object(whole_text);
    if (whole.is_null() || whole.value("type", "") != "message") return not_an_answer("Anthropic");
    Ordered start = whole;
    start["content"] = Ordered::array();
    start["stop_reason"] = nullptr;
    start["stop_sequence"] = nullptr;
    std::string out;
    append_event(out, {{"type", "message_start"}, {"message", std::move(start)}}, "message_start");
    std::size_t index = 0;
    for (const Ordered& block : whole.value("content", Ordered::array())) {
      append_event(out,
                   {{"type", "content_block_start"},
                    {"index", index},
                    {"content_block", block_start(block)}},
                   "content_block_start");
      for (Ordered& delta : block_deltas(block)) {
        append_event(
            out, {{"type", "content_block_delta"}, {"index", index}, {"delta", std::move(delta)}},
            "content_block_delta");
      }
      append_event(out, {{"type", "content_block_stop"}, {"index", index++}}, "content_block_stop");
    }
    append_event(out,
                 {{"type", "message_delta"},
                  {"delta",
                   {{"stop_reason", whole.value("stop_reason", Ordered())},
                    {"stop_sequence", whole.value("stop_sequence", Ordered())}}},
                  {"usage", whole.value("usage", Ordered::object())}},
                 "message_delta");
    append_event(out, {{"type", "message_stop"}}, "message_stop");
    return out;
  });
}

Result<std::string> anthropic_whole_of(std::string_view stream) {
  return guarded("Anthropic", [&]() -> Result<std::string> {
    AnthropicMessage built;
    const bool good = each_data_object(stream, [&](const Ordered& event) { built.take(event); });
    if (!good || !built.message.is_object()) return not_an_answer("Anthropic");
    built.message["content"] = Ordered::array();
    for (auto& [index, block] : built.blocks) {
      if (const std::string& json = built.partial_json[index]; !json.empty()) {
        block["input"] = parse_object(json);
      }
      built.message["content"].push_back(std::move(block));
    }
    return built.message.dump();
  });
}

}  // namespace verbatim::gateway
