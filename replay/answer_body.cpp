#include "replay/answer_body.hpp"

#include "gateway/canonical_output.hpp"
#include "replay/recorded.hpp"

namespace verbatim::replay {

using gateway::Api;

std::optional<Api> served_api(const Json& request_leaf) {
  const auto api = gateway::api_named(text_at(request_leaf, {"route", "api"}));
  return api && gateway::generates_text(*api) ? api : std::nullopt;
}

std::optional<Json> whole_answer(Api api, const std::string& body) {
  std::string whole = body;
  if (body.rfind("{", 0) != 0) {
    auto joined = api == Api::anthropic_messages ? gateway::anthropic_whole_of(body)
                                                 : gateway::openai_whole_of(api, body);
    if (!joined) return std::nullopt;
    whole = std::move(*joined);
  }
  auto json = parse_json(whole);
  if (!json || !json->is_object()) return std::nullopt;
  return std::move(*json);
}

std::optional<std::vector<AnswerChoice>> answer_choices(Api api, const Json& whole) {
  if (api == Api::anthropic_messages) {
    AnswerChoice answer;
    for (const Json& part : whole.value("content", Json::array())) {
      answer.text += text_at(part, {"text"});
    }
    answer.finish = text_at(whole, {"stop_reason"});
    return std::vector{std::move(answer)};
  }
  const Json choices = whole.value("choices", Json::array());
  if (!choices.is_array()) return std::nullopt;
  std::vector<AnswerChoice> answers(choices.size());
  std::vector<bool> told(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Json& choice = choices[i];
    const auto index = choice.find("index");
    const std::size_t place =
        index != choice.end() && index->is_number_unsigned() ? index->get<std::size_t>() : i;
    if (place >= answers.size() || told[place]) return std::nullopt;
    told[place] = true;
    answers[place].text = api == Api::openai_chat ? text_at(choice, {"message", "content"})
                                                  : text_at(choice, {"text"});
    answers[place].finish = text_at(choice, {"finish_reason"});
  }
  return answers;
}

}  // namespace verbatim::replay
