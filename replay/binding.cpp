#include "replay/binding.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/local_request.hpp"
#include "local_engine/output_text.hpp"
#include "replay/answer_body.hpp"
#include "replay/compare.hpp"
#include "replay/sent_answer.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

using gateway::Api;

constexpr std::int64_t kClockSlackUs = 5'000'000;  // the wall clock may be set back a little
/// The gateway read it within a bound of its own.
constexpr std::size_t kDecodedBytesMax = std::size_t{1} << 30;
constexpr std::int64_t kAnswerWithinUs = 3'600'000'000;  // a request may wait for the engine

bool same_sampling(const local_engine::SamplingParams& a, const local_engine::SamplingParams& b) {
  return a.temperature == b.temperature && a.seed == b.seed && a.choice == b.choice &&
         a.top_k == b.top_k && a.top_p == b.top_p && a.min_p == b.min_p &&
         a.repetition_penalty == b.repetition_penalty &&
         a.frequency_penalty == b.frequency_penalty && a.presence_penalty == b.presence_penalty &&
         a.logit_bias == b.logit_bias;
}

Binding differs(std::string reason, std::string detail) {
  return Binding{std::move(reason), std::move(detail), std::nullopt};
}

/// The request's body, understood as the gateway understood it, against what the engine was recorded to have run.
Binding check_prompt(const gateway::LocalQuestion& question,
                     const std::vector<RecordedChoice>& choices) {
  if (question.choices.size() != choices.size()) {
    return differs("prompt", "the request asks for " + std::to_string(question.choices.size()) +
                                 " choices, " + std::to_string(choices.size()) + " are recorded");
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const local_engine::GenerationRequest& asked = question.choices[i];
    const RecordedChoice& recorded = choices[i];
    if (asked.prompt_ids != recorded.request.prompt_ids) {
      return differs("prompt",
                     "the recorded request, rendered and tokenised, gives other prompt ids than "
                     "were recorded");
    }
    if (!same_sampling(asked.sampling, recorded.request.sampling) ||
        asked.ignore_eos != recorded.request.ignore_eos) {
      return differs("prompt", "the recorded request asks for other sampling than was recorded");
    }
    if (recorded.output_ids.size() > asked.tokens_max) {
      return differs("length", "more tokens are recorded than the request allows");
    }
  }
  return {};
}

/// Where the text that went out stops being the text of the tokens, if it does.
std::optional<std::size_t> text_difference(std::string_view sent, std::string_view computed,
                                           const std::vector<std::string>& stops) {
  const auto [at, unused] =
      std::mismatch(sent.begin(), sent.end(), computed.begin(), computed.end());
  const auto common = static_cast<std::size_t>(at - sent.begin());
  if (common != sent.size()) return common;
  if (sent.size() == computed.size()) return std::nullopt;
  // A stop sequence cuts the text before itself; its tokens were computed and not given out.
  const std::string_view rest = computed.substr(sent.size());
  const bool stopped = std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
    return rest.rfind(stop, 0) == 0;
  });
  return stopped ? std::nullopt : std::optional(common);
}

/// What ended the recorded tokens: "stop", "length", or "" for nothing: then there was more.
std::string end_of(const local_engine::Engine& engine, const RecordedChoice& recorded,
                   const local_engine::GenerationRequest& asked) {
  const auto& ids = recorded.output_ids;
  if (!asked.ignore_eos && !ids.empty() && is_end(engine, ids.back())) return "stop";
  const std::string text = local_engine::answer_text(engine.tokenizer(), asked, ids);
  const bool stopped = std::any_of(asked.stop.begin(), asked.stop.end(), [&](const auto& stop) {
    return text.find(stop) != std::string::npos;
  });
  if (stopped) return "stop";
  const std::size_t room =
      engine.context_max() - std::min(engine.context_max(), asked.prompt_ids.size());
  return ids.size() == std::min<std::size_t>(asked.tokens_max, room) ? "length" : "";
}

/// That an answer ends where something ended it, and says so.
Binding check_end(const std::vector<AnswerChoice>& answers, const gateway::LocalQuestion& question,
                  const local_engine::Engine& engine, const std::vector<RecordedChoice>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const local_engine::GenerationRequest& asked = question.choices[i];
    const auto& ids = choices[i].output_ids;
    const bool goes_on =
        !asked.ignore_eos && !ids.empty() &&
        std::any_of(ids.begin(), ids.end() - 1, [&](auto id) { return is_end(engine, id); });
    const std::string end = goes_on ? "" : end_of(engine, choices[i], asked);
    const std::string which = " (choice " + std::to_string(i) + ")";
    if (goes_on) return differs("length", "tokens are recorded behind an end of sequence" + which);
    if (end.empty()) {
      return differs("length",
                     "the recorded answer stops at " + std::to_string(ids.size()) +
                         " tokens, and nothing ended it there: no end of sequence, no stop "
                         "sequence, and the request allows " +
                         std::to_string(asked.tokens_max) + which);
    }
    const std::string& recorded = choices[i].finish;
    if (!recorded.empty() && recorded != (end == "length" ? "length" : "stop")) {
      return differs("text", "the recorded tokens are said to have ended by '" +
                                 recorded.substr(0, 64) + "', and ended by '" + end + "'" + which);
    }
    const std::string& said = answers[i].finish;
    const bool by_itself = said == "stop" || said == "end_turn" || said == "stop_sequence";
    if (end == "length" ? !is_by_limit(said) : !by_itself) {
      return differs("text", "the answer that went out says that it ended by '" +
                                 said.substr(0, 64) + "', its tokens by '" + end + "'" + which);
    }
  }
  return {};
}

Binding check_text(Api api, const std::string& body, const gateway::LocalQuestion& question,
                   const local_engine::Engine& engine, const std::vector<RecordedChoice>& choices) {
  const auto whole = whole_answer(api, body);
  const auto answers = whole ? answer_choices(api, *whole) : std::nullopt;
  if (!answers || answers->size() != choices.size()) {
    return differs("text", "the answer's body does not hold the recorded choices");
  }
  const std::size_t per_prompt =
      question.prompt_texts.empty()
          ? 1
          : std::max<std::size_t>(1, choices.size() / question.prompt_texts.size());
  if (Binding end = check_end(*answers, question, engine, choices); !end.reason.empty()) return end;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string echo = question.echo && i / per_prompt < question.prompt_texts.size()
                                 ? question.prompt_texts[i / per_prompt]
                                 : "";
    const std::string computed =
        echo +
        local_engine::answer_text(engine.tokenizer(), question.choices[i], choices[i].output_ids);
    if (const std::string& beside = (*answers)[i].beside; !beside.empty()) {
      return differs("text", "the answer that went out says more than the recorded tokens: '" +
                                 beside.substr(0, 64) + "' (choice " + std::to_string(i) + ")");
    }
    if (const auto at = text_difference((*answers)[i].text, computed, question.choices[i].stop)) {
      Binding binding = differs(
          "text", "the answer that went out is not the text of the recorded tokens (choice " +
                      std::to_string(i) + ")");
      binding.character = at;
      return binding;
    }
  }
  return {};
}

/// A recorded request, as the gateway read it; or how it does not give what was recorded of the engine's work.
struct Question {
  std::optional<gateway::LocalQuestion> asked;
  Binding binding;
};

Result<Question> read_question(audit::RecordSource& reader, Api api, const RecordedLeaves& record,
                               const local_engine::Engine& engine, const RecordedTokens& tokens) {
  const auto request = reader.content(record.request.index, "request.body");
  if (!request) return request.error();
  // The body is recorded as it came.
  const auto body = gateway::decode_content(text_at(record.request.json, {"coding", "name"}),
                                            request->bytes, kDecodedBytesMax);
  if (!body) return Question{{}, differs("prompt", "the recorded request cannot be unpacked")};
  auto question = gateway::read_local_request(api, *body, engine, tokens.now_us,
                                              tokens.choices.front().request.sampling.seed);
  if (!question) {
    return Question{
        {},
        differs("prompt", "the recorded request is not one that the engine would have answered: " +
                              question.error().message())};
  }
  if (text_at(record.request.json, {"model", "requested"}) !=
      gateway::leaf_text(question->model, 256)) {
    return Question{
        {}, differs("prompt", "the recorded request asks for another model than its leaf says")};
  }
  const std::string unlike =
      unlike_request(record.request.json, api, *body, engine.fingerprint().weights_sha256.hex());
  if (!unlike.empty()) return Question{{}, differs("prompt", unlike)};
  Binding binding = check_prompt(*question, tokens.choices);
  return Question{std::move(*question), std::move(binding)};
}

}  // namespace

Result<Binding> check_binding(audit::RecordSource& reader, const RecordedLeaves& asked,
                              const RecordedLeaves& computed, local_engine::Engine& engine,
                              const RecordedTokens& tokens) {
  const auto api = served_api(asked.request.json);
  if (!api || engine.tokenizer() == nullptr) {
    return differs("prompt", "the request is of an API that the local engine does not serve");
  }
  // What the template saw of the time must be the time of the request, and not one at somebody's choice.
  const auto asked_us = parse_rfc3339(text_at(computed.request.json, {"time"}));
  if (!asked_us) return asked_us.error();
  if (tokens.now_us < *asked_us - kClockSlackUs || tokens.now_us > *asked_us + kAnswerWithinUs) {
    return differs("prompt", "the time that the template saw is not the request's");
  }
  const auto question = read_question(reader, *api, asked, engine, tokens);
  if (!question) return question.error();
  Binding binding = question->binding;
  if (!binding.reason.empty()) return binding;
  const auto response = reader.content(asked.response->index, "response.body");
  if (!response) return response.error();
  binding = check_text(*api, response->bytes, *question->asked, engine, tokens.choices);
  if (!binding.reason.empty()) return binding;

  // All that went out, and not the text alone: of a hit its origin's answer, and that it is this one.
  const bool is_hit = asked.response->index != computed.response->index;
  const auto first = is_hit ? read_question(reader, *api, computed, engine, tokens) : question;
  if (!first) return first.error();
  if (!first->binding.reason.empty()) return first->binding;
  const SentAnswer sent{*api, computed, *first->asked, tokens.choices};
  auto unlike = unlike_sent(reader, sent, engine);
  if (unlike && unlike->empty() && is_hit)
    unlike = unlike_hit(reader, sent, asked, *question->asked);
  if (!unlike) return unlike.error();
  return unlike->empty() ? Binding{} : differs("text", *unlike);
}

}  // namespace verbatim::replay
