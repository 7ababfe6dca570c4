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

/// Calls of tools, which are part of what was answered; their ids are random.
std::string calls_text(Json call) {
  if (call.is_object()) call.erase("id");
  return call.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<AnswerText> read_openai(Api api, const Json& json) {
  const Json& choices = member(json, "choices");
  if (!choices.is_array() || choices.empty()) return cannot_read("no_answer");
  const Json& choice = choices.front();
  AnswerText answer;
  if (api == Api::openai_completions) {
    if (!member(choice, "text").is_string()) return cannot_read("no_answer");
    answer.text = text_of(member(choice, "text"));
    answer.tokens = completion_tokens(member(choice, "logprobs"));
  } else {
    const Json& message = member(choice, "message");
    if (!message.is_object()) return cannot_read("no_answer");
    answer.text = text_of(member(message, "content")) + text_of(member(message, "refusal"));
    if (const Json& calls = member(message, "tool_calls"); calls.is_array()) {
      for (const Json& call : calls) answer.text += calls_text(call);
    }
    answer.tokens = chat_tokens(member(choice, "logprobs"));
  }
  answer.finish = text_of(member(choice, "finish_reason"));
  return answer;
}

Result<AnswerText> read_anthropic(const Json& json) {
  const Json& content = member(json, "content");
  if (!content.is_array()) return cannot_read("no_answer");
  AnswerText answer;
  for (const Json& part : content) {
    answer.text +=
        member(part, "text").is_string() ? text_of(member(part, "text")) : calls_text(part);
  }
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
