#include "replay/answer_text.hpp"

#include "schema/canonical_json.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

using gateway::Api;

Error cannot_read(const char* word) { return {Errc::invalid_input, word, "", ""}; }

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

double number_of(const Json& value) { return value.is_number() ? value.get<double>() : 0.0; }

/// A token's bytes where the endpoint gave them: its text may be half of a character.
std::string token_bytes(const Json& token) {
  const Json& bytes = member(token, "bytes");
  if (!bytes.is_array()) return text_of(member(token, "token"));
  std::string text;
  for (const Json& byte : bytes) {
    if (!byte.is_number_unsigned() || byte > 255) return text_of(member(token, "token"));
    text.push_back(static_cast<char>(byte.get<unsigned>()));
  }
  return text;
}

void sort_top(AnswerToken& token) {
  std::stable_sort(token.top.begin(), token.top.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

std::vector<AnswerToken> chat_tokens(const Json& logprobs) {
  std::vector<AnswerToken> tokens;
  const Json& content = member(logprobs, "content");
  if (!content.is_array()) return tokens;
  for (const Json& each : content) {
    AnswerToken token{token_bytes(each), number_of(member(each, "logprob")), {}};
    if (const Json& top = member(each, "top_logprobs"); top.is_array()) {
      for (const Json& other : top) {
        token.top.emplace_back(token_bytes(other), number_of(member(other, "logprob")));
      }
    }
    sort_top(token);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<AnswerToken> completion_tokens(const Json& logprobs) {
  std::vector<AnswerToken> tokens;
  const Json& texts = member(logprobs, "tokens");
  const Json& values = member(logprobs, "token_logprobs");
  const Json& tops = member(logprobs, "top_logprobs");
  if (!texts.is_array()) return tokens;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    AnswerToken token{text_of(texts[i]), 0, {}};
    if (values.is_array() && i < values.size()) token.logprob = number_of(values[i]);
    if (tops.is_array() && i < tops.size() && tops[i].is_object()) {
      for (const auto& [text, logprob] : tops[i].items()) {
        token.top.emplace_back(text, number_of(logprob));
      }
    }
    sort_top(token);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// An answer's parts as one text: plain text as it is, any other part under a line that names it (docs/replay.md).
class Parts {
 public:
  void add_text(std::string_view text) { text_ += text; }
  void add(std::string_view name, std::string_view text) {
    if (text.empty()) return;
    end_text();
    write(name, text);
  }
  /// As JSON. Its id is left out, which is random.
  void add_json(std::string_view name, Json value) {
    for (const char* id : {"id", "tool_use_id"}) {
      if (value.is_object()) value.erase(id);
    }
    if (!value.empty()) add(name, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  /// What a model thought comes behind what it said.
  void add_reasoning(std::string_view text) { reasoning_.emplace_back(text); }

  void end() {
    end_text();
    for (const std::string& each : reasoning_) add(kReasoning, each);
    reasoning_.clear();
  }
  /// After end().
  [[nodiscard]] const std::string& all() const { return all_; }
  [[nodiscard]] bool begins_with_text() const { return begins_with_text_; }

  static constexpr std::string_view kText = "text", kReasoning = "reasoning", kRefusal = "refusal",
                                    kAudio = "audio", kCall = "tool call", kOther = "part",
                                    kChoice = "choice ";

 private:
  void end_text() {
    if (text_.empty()) return;
    begins_with_text_ = begins_with_text_ || all_.empty();
    write(all_.empty() ? "" : kText, text_);
    text_.clear();
  }

  /// Whether a line could be taken for the name of a part, or for one that was escaped.
  static bool looks_like_head(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of('\\'), line.size()));
    if (!line.starts_with("[[") || !line.ends_with("]]") || line.size() < 4) return false;
    const std::string_view name = line.substr(2, line.size() - 4);
    return name == kText || name == kReasoning || name == kRefusal || name == kAudio ||
           name == kCall || name == kOther || name.starts_with(kChoice);
  }

  void write(std::string_view name, std::string_view text) {
    if (!all_.empty()) all_ += '\n';
    if (!name.empty()) all_.append("[[").append(name).append("]]\n");
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t end = std::min(text.find('\n', from), text.size());
      const std::string_view line = text.substr(from, end - from);
      if (from > 0) all_ += '\n';
      if (looks_like_head(line)) all_ += '\\';
      all_ += line;
      from = end + 1;
    }
  }

  std::string all_, text_;  // text_: not yet written, for several texts in a row are one
  std::vector<std::string> reasoning_;
  bool begins_with_text_ = false;
};

/// The texts of a list of text parts, or one text.
std::string joined_text(const Json& value) {
  if (!value.is_array()) return text_of(value);
  std::string joined;
  for (const Json& part : value) joined += text_of(member(part, "text"));
  return joined;
}

void add_part(Parts& parts, const Json& part) {
  const std::string type = text_of(member(part, "type"));
  if (part.is_string()) {
    parts.add_text(text_of(part));
  } else if (type == "thinking" || type == "reasoning") {
    for (const char* name : {"thinking", "reasoning", "text"}) {
      parts.add_reasoning(joined_text(member(part, name)));
    }
  } else if (type == "text" || member(part, "text").is_string()) {
    parts.add_text(text_of(member(part, "text")));
  } else if (type == "refusal") {
    parts.add(Parts::kRefusal, text_of(member(part, "refusal")));
  } else if (type.ends_with("tool_use")) {
    parts.add_json(Parts::kCall, part);
  } else if (type != "redacted_thinking") {  // whose cipher is another one every time
    parts.add_json(Parts::kOther, part);
  }
}

/// A text, or a list of parts.
void add_content(Parts& parts, const Json& content) {
  if (content.is_array()) {
    for (const Json& part : content) add_part(parts, part);
  } else {
    add_part(parts, content);
  }
}

void add_message(Parts& parts, const Json& message) {
  add_content(parts, member(message, "content"));
  parts.add(Parts::kRefusal, text_of(member(message, "refusal")));
  parts.add(Parts::kAudio, text_of(member(member(message, "audio"), "transcript")));
  if (const Json& calls = member(message, "tool_calls"); calls.is_array()) {
    for (const Json& call : calls) parts.add_json(Parts::kCall, call);
  }
  parts.add_json(Parts::kCall, member(message, "function_call"));
  // Servers call it by one of these names, or by several at once.
  std::string last;
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    std::string reasoning = joined_text(member(message, name));
    if (reasoning.empty() || reasoning == last) continue;
    parts.add_reasoning(reasoning);
    last = std::move(reasoning);
  }
}

std::vector<const Json*> by_index(const Json& choices) {
  std::vector<std::pair<std::uint64_t, const Json*>> places;
  for (const Json& choice : choices) {
    const Json& index = member(choice, "index");
    places.emplace_back(index.is_number_unsigned() ? index.get<std::uint64_t>() : places.size(),
                        &choice);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Json*> sorted;
  for (const auto& place : places) sorted.push_back(place.second);
  return sorted;
}

Parts choice_parts(Api api, const Json& choice) {
  Parts parts;
  if (api == Api::openai_completions) {
    parts.add_text(text_of(member(choice, "text")));
  } else {
    add_message(parts, member(choice, "message"));
  }
  parts.end();
  return parts;
}

Result<AnswerText> read_openai(Api api, const Json& json) {
  const Json& choices = member(json, "choices");
  if (!choices.is_array() || choices.empty()) return cannot_read("no_answer");
  const std::vector<const Json*> sorted = by_index(choices);
  const Json& first = *sorted.front();
  AnswerText answer;
  bool any = false;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Parts parts = choice_parts(api, *sorted[i]);
    any = any || !parts.all().empty();
    if (i > 0) {
      answer.text.append("\n[[").append(Parts::kChoice).append(std::to_string(i)).append("]]\n");
    } else if (const Json& logprobs = member(first, "logprobs"); parts.begins_with_text()) {
      answer.tokens =
          api == Api::openai_completions ? completion_tokens(logprobs) : chat_tokens(logprobs);
    }
    answer.text += parts.all();
  }
  if (!any) return cannot_read("no_answer");
  answer.finish = text_of(member(first, "finish_reason"));
  return answer;
}

Result<AnswerText> read_anthropic(const Json& json) {
  const Json& content = member(json, "content");
  if (!content.is_array()) return cannot_read("no_answer");
  Parts parts;
  add_content(parts, content);
  parts.end();
  AnswerText answer;
  answer.text = parts.all();
  if (answer.text.empty()) return cannot_read("no_answer");
  answer.finish = text_of(member(json, "stop_reason"));
  return answer;
}

}  // namespace

Result<AnswerText> read_answer_text(Api api, std::string_view body) {
  const auto json = parse_json(body);
  if (!json) return cannot_read("not_json");
  auto answer = api == Api::anthropic_messages ? read_anthropic(*json) : read_openai(api, *json);
  if (!answer) return answer;
  answer->model = text_of(member(*json, "model"));
  answer->system_fingerprint = text_of(member(*json, "system_fingerprint"));
  return answer;
}

}  // namespace verbatim::replay
