#include "replay/answer_body.hpp"

#include "gateway/canonical_output.hpp"
#include "replay/answer_stream.hpp"
#include "replay/recorded.hpp"

namespace verbatim::replay {

using gateway::Api;

std::optional<Api> served_api(const Json& request_leaf) {
  const auto api = gateway::api_named(text_at(request_leaf, {"route", "api"}));
  return api && gateway::generates_text(*api) ? api : std::nullopt;
}

bool is_stream(std::string_view body) { return !body.starts_with('{'); }

std::optional<Json> whole_answer(Api api, const std::string& body) {
  std::string whole = body;
  if (is_stream(body)) {
    auto joined = api == Api::anthropic_messages ? gateway::anthropic_whole_of(body)
                                                 : gateway::openai_whole_of(api, body);
    if (!joined) return std::nullopt;
    whole = std::move(*joined);
  }
  auto json = parse_json(whole);
  if (!json || !json->is_object()) return std::nullopt;
  return std::move(*json);
}

bool is_by_limit(std::string_view finish) { return finish == "length" || finish == "max_tokens"; }

namespace {

/// A text, and nothing with it.
void read_part(const Json& part, AnswerChoice& answer) {
  const std::string type = text_at(part, {"type"});
  if (type != "text" && type != "output_text") {
    answer.beside = type.empty() ? "content" : type;
    return;
  }
  if (!part.contains("text") || !part["text"].is_string()) answer.beside = "text";
  answer.text += text_at(part, {"text"});
  for (const auto& [name, value] : part.items()) {
    if (name != "type" && name != "text" && !says_nothing(value)) answer.beside = name;
  }
}

/// Content as a text, or as a list of parts of which those of text make the answer.
void read_content(const Json& content, AnswerChoice& answer) {
  if (content.is_string()) answer.text = content.get<std::string>();
  if (!content.is_string() && !content.is_array() && !content.is_null()) answer.beside = "content";
  if (!content.is_array()) return;
  for (const Json& part : content) read_part(part, answer);
}

void read_message(const Json& message, AnswerChoice& answer) {
  if (!message.is_object()) {
    if (!message.is_null()) answer.beside = "message";
    return;
  }
  for (const auto& [name, value] : message.items()) {
    if (name == "content") {
      read_content(value, answer);
    } else if (name == "role" ? value != "assistant" : !says_nothing(value)) {
      answer.beside = name;
    }
  }
}

/// Members in which some client might read an answer: all but the one in which it is, and those that are known to say none.
template <class IsSilent>
void read_beside(const Json& object, std::string_view read, IsSilent is_silent,
                 AnswerChoice& answer) {
  for (const auto& [name, value] : object.items()) {
    if (name != read && !is_silent(name) && !says_nothing(value)) answer.beside = name;
  }
}

}  // namespace

std::optional<std::vector<AnswerChoice>> answer_choices(Api api, const Json& whole) {
  if (api == Api::anthropic_messages) {
    AnswerChoice answer;
    read_content(whole.value("content", Json()), answer);
    answer.finish = text_at(whole, {"stop_reason"});
    answer.stop_sequence = text_at(whole, {"stop_sequence"});
    read_beside(whole, "content", is_silent_member, answer);
    if (text_at(whole, {"type"}) != "message") answer.beside = "type";
    return std::vector{std::move(answer)};
  }
  const Json choices = whole.value("choices", Json::array());
  if (!choices.is_array()) return std::nullopt;
  std::vector<AnswerChoice> answers(choices.size());
  std::vector<bool> told(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Json& choice = choices[i];
    if (!choice.is_object()) {
      answers[i].beside = "choices";
      continue;
    }
    const auto index = choice.find("index");
    const std::size_t place =
        index != choice.end() && index->is_number_unsigned() ? index->get<std::size_t>() : i;
    if (place >= answers.size() || told[place]) return std::nullopt;
    told[place] = true;
    if (api == Api::openai_chat) {
      read_message(choice.value("message", Json()), answers[place]);
    } else {
      const Json text = choice.value("text", Json());
      if (!text.is_string() && !text.is_null()) answers[place].beside = "text";
      answers[place].text = text_at(choice, {"text"});
    }
    read_beside(choice, api == Api::openai_chat ? "message" : "text", is_silent_choice_member,
                answers[place]);
    read_beside(whole, "choices", is_silent_member, answers[place]);
    answers[place].finish = text_at(choice, {"finish_reason"});
  }
  return answers;
}

}  // namespace verbatim::replay
