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

// An ordered object finds a member by looking at all before it, and a stream repeats the answer's head in each event: what
// an upstream says must not cost more than in proportion to its length. No answer of a real one comes near these.
constexpr std::size_t kMembersMax = 256;
constexpr std::int64_t kPlacesMax = 1024;
constexpr std::size_t kStreamBytesMin = 64u << 10, kStreamRatioMax = 64;

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

/// Calls `visit` with the JSON object of every data event; false if one is no object, none came, or it says so.
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
    if (!visit(object)) return false;
    any = true;
  }
  return any;
}

/// All members but those named.
Ordered without(const Ordered& object, std::initializer_list<std::string_view> names) {
  Ordered out = Ordered::object();
  for (const auto& [key, value] : object.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    out.get_ref<Ordered::object_t&>().emplace_back(key, value);  // names are there once
  }
  return out;
}

/// `index`: the place among several, or `fallback` if none is told; -1 for anything but a place.
std::int64_t place_of(const Ordered& object, std::int64_t fallback = 0) {
  const Ordered index = object.value("index", Ordered(fallback));
  const bool whole = index.is_number_unsigned() || index.is_number_integer();
  const std::int64_t place = whole ? index.get<std::int64_t>() : -1;
  return place <= kPlacesMax ? std::max<std::int64_t>(place, -1) : -1;
}

/// Adds to a member that is a text, or makes it one.
void append_text(Ordered& object, const std::string& key, const Ordered& piece) {
  Ordered& text = object[key];
  if (text.is_null()) text = "";
  text.get_ref<std::string&>() += piece.get_ref<const std::string&>();
}

/// As Ordered::update(). False if there are too many members.
[[nodiscard]] bool update(Ordered& object, const Ordered& with) {
  if (with.size() > kMembersMax) return false;
  object.update(with);
  return object.size() <= kMembersMax;
}

// ---- OpenAI, whole to stream

class OpenaiStream {
 public:
  OpenaiStream(Ordered base, bool include_usage, std::size_t bytes_max)
      : base_(std::move(base)), include_usage_(include_usage), bytes_max_(bytes_max) {}

  void chunk(Ordered choice) {
    if (is_too_long()) return;
    Ordered chunk = base_;
    chunk["choices"] = Ordered::array({std::move(choice)});
    if (include_usage_) chunk["usage"] = nullptr;
    append_event(out_, chunk);
  }
  [[nodiscard]] bool is_too_long() const { return out_.size() > bytes_max_; }
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
  std::size_t bytes_max_;
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

/// Appends what a delta adds: strings are pieces, objects are merged, the rest is set. False if it is too much.
[[nodiscard]] bool merge_object(Ordered& object, const Ordered& delta) {
  if (delta.size() > kMembersMax) return false;
  for (const auto& [key, value] : delta.items()) {
    const bool known = object.contains(key);
    if (value.is_string() && key != "role" && key != "id" && key != "type" && known &&
        object[key].is_string()) {
      append_text(object, key, value);
    } else if (value.is_object() && known && object[key].is_object()) {
      if (!merge_object(object[key], value)) return false;
    } else if (!value.is_null() || !known) {
      object[key] = value;
    }
  }
  return object.size() <= kMembersMax;
}

/// The same for a message, whose calls are merged by index.
[[nodiscard]] bool merge_message(Ordered& message, const Ordered& delta) {
  if (delta.is_null()) return true;
  const Ordered pieces = delta.value("tool_calls", Ordered());
  if (!pieces.is_array()) return merge_object(message, delta);
  if (!merge_object(message, without(delta, {"tool_calls"}))) return false;
  Ordered& calls = message["tool_calls"];
  if (!calls.is_array()) calls = Ordered::array();
  for (const Ordered& piece : pieces) {
    const std::int64_t place = place_of(piece);
    if (place < 0) return false;
    const auto index = static_cast<std::size_t>(place);
    while (calls.size() <= index) calls.push_back(Ordered::object());
    if (!merge_object(calls[index], without(piece, {"index"}))) return false;
  }
  return true;
}

/// Log-probabilities come as lists, one member each: the pieces are joined.
[[nodiscard]] bool merge_logprobs(Ordered& to, const Ordered& piece) {
  if (!piece.is_object()) return true;
  if (piece.size() > kMembersMax) return false;
  if (!to.is_object()) to = Ordered::object();
  for (const auto& [key, value] : piece.items()) {
    if (value.is_array() && to.contains(key) && to[key].is_array()) {
      for (const Ordered& item : value) to[key].push_back(item);
    } else if (!value.is_null() || !to.contains(key)) {
      to[key] = value;
    }
  }
  return to.size() <= kMembersMax;
}

/// False if the piece is none of an answer's, or too much.
[[nodiscard]] bool merge_choice(Api api, std::map<std::int64_t, Ordered>& choices,
                                const Ordered& piece) {
  const std::int64_t index = place_of(piece);
  if (index < 0) return false;
  Ordered& choice = choices[index];
  if (choice.is_null()) {
    choice = {{"index", index}};
    choice[api == Api::openai_chat ? "message" : "text"] =
        api == Api::openai_chat ? Ordered::object() : Ordered("");
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = nullptr;
  }
  if (api != Api::openai_chat) {
    append_text(choice, "text", piece.value("text", Ordered("")));
  } else if (!merge_message(choice["message"], piece.value("delta", Ordered::object()))) {
    return false;
  }
  if (piece.contains("finish_reason") && !piece["finish_reason"].is_null()) {
    choice["finish_reason"] = piece["finish_reason"];
  }
  return !piece.contains("logprobs") || merge_logprobs(choice["logprobs"], piece["logprobs"]);
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
  const auto add = [&](const char* key) { append_text(block, key, delta.value(key, Ordered(""))); };
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
  std::map<std::int64_t, Ordered> blocks;
  std::map<std::int64_t, std::string> partial_json;

  /// False if the event is none of a message's, or too much.
  [[nodiscard]] bool take(const Ordered& event) {
    const std::string type = event.value("type", std::string());
    const std::int64_t index = place_of(event);
    if (index < 0) return false;
    if (type == "message_start") message = event.value("message", Ordered::object());
    if (type == "content_block_start") {
      blocks[index] = event.value("content_block", Ordered::object());
    }
    if (type == "content_block_delta" && blocks.count(index) > 0) {
      merge_block_delta(blocks[index], partial_json[index],
                        event.value("delta", Ordered::object()));
    }
    if (type == "message_delta" && message.is_object()) {
      if (!update(message, event.value("delta", Ordered::object()))) return false;
      // Cumulative: what is told again replaces what was told before.
      Ordered usage = message.value("usage", Ordered::object());
      if (!update(usage, event.value("usage", Ordered::object()))) return false;
      message["usage"] = std::move(usage);
    }
    return true;
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
    OpenaiStream stream(std::move(base), include_usage,
                        kStreamBytesMin + kStreamRatioMax * whole_text.size());
    std::int64_t position = 0;
    for (const Ordered& choice : whole["choices"]) {
      const std::int64_t index = place_of(choice, position++);
      if (index < 0 || stream.is_too_long()) return not_an_answer("OpenAI");
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
    if (stream.is_too_long()) return not_an_answer("OpenAI");
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
      const Ordered pieces = chunk.value("choices", Ordered::array());
      return std::all_of(pieces.begin(), pieces.end(),
                         [&](const Ordered& piece) { return merge_choice(api, choices, piece); });
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
    const bool good =
        each_data_object(stream, [&](const Ordered& event) { return built.take(event); });
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
