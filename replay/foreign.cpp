#include "replay/foreign.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/http.hpp"
#include "gateway/local_request.hpp"
#include "replay/answer_body.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <limits>

namespace verbatim::replay {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::TokenId;

constexpr std::size_t kDecodedBytesMax = 64u << 20;

ForeignAnswer cannot(const char* reason, std::string detail) {
  return ForeignAnswer{{}, {reason, std::move(detail)}};
}

/// The content coding that the recorded headers name; "" if none were recorded.
Result<std::string> recorded_coding(audit::RecordSource& reader, std::uint64_t index) {
  const auto headers = reader.content(index, "response.headers");
  if (!headers && headers.error().code == Errc::not_found) return std::string();
  if (!headers) return headers.error();
  const auto list = parse_json(headers->bytes);
  if (!list || !list->is_array()) return std::string();
  for (const Json& pair : *list) {
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string() &&
        gateway::same_word(pair[0].get<std::string>(), "content-encoding")) {
      return pair[1].get<std::string>();
    }
  }
  return std::string();
}

/// The tokens that say `text` behind this prompt. Text does not tell how it was cut into tokens: the cut of prompt and
/// text as one is tried first, since a model goes on as it was trained to, then the text by itself. Nothing if neither
/// says the same bytes.
std::optional<std::vector<TokenId>> recover_tokens(const Engine& engine,
                                                   const std::vector<TokenId>& prompt,
                                                   const std::string& text) {
  const auto& tokenizer = *engine.tokenizer();
  const std::string before = tokenizer.decode(prompt, /*skip_special=*/false);
  const std::string shown = tokenizer.decode(prompt, /*skip_special=*/true);
  for (const bool add_special : {false, true}) {
    const auto all = tokenizer.encode((add_special ? shown : before) + text,
                                      {add_special, /*parse_special=*/!add_special});
    if (!all || all->size() < prompt.size() ||
        !std::equal(prompt.begin(), prompt.end(), all->begin())) {
      continue;
    }
    if (tokenizer.decode(*all, /*skip_special=*/true) == shown + text) {
      return std::vector<TokenId>(all->begin() + static_cast<std::ptrdiff_t>(prompt.size()),
                                  all->end());
    }
  }
  const auto alone = tokenizer.encode(text, {/*add_special=*/false, /*parse_special=*/false});
  if (!alone) return std::nullopt;
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), alone->begin(), alone->end());
  if (tokenizer.decode(*alone, true) == text || tokenizer.decode(all, true) == shown + text) {
    return *alone;
  }
  return std::nullopt;
}

bool is_end(const Engine& engine, TokenId id) {
  const auto& ends = engine.eos_ids();
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

/// The answer ended by itself, so its last token was an end of sequence.
bool ended_by_itself(const std::string& finish, const GenerationRequest& request) {
  return (finish == "stop" && request.stop.empty()) || finish == "end_turn";
}

Result<ForeignScore> score_choice(Engine& engine, const GenerationRequest& request,
                                  std::vector<TokenId> output_ids) {
  ForeignScore score;
  score.output_ids = std::move(output_ids);
  auto result = engine.score(request, score.output_ids);
  if (!result) return result.error();
  for (local_engine::TokenInfo& token : result->tokens) {
    // Of several ends of sequence any is as good as another: the text does not tell which it was.
    const bool chosen = token.chosen || (is_end(engine, token.id) && is_end(engine, token.best));
    if (chosen) token.deficit = 0;
    token.chosen = chosen;
    score.deficits.push_back(token.deficit);
    score.differing += chosen ? 0 : 1;
  }
  score.result = std::move(*result);
  return score;
}

Result<ForeignAnswer> score_choices(Engine& engine, const gateway::LocalQuestion& question,
                                    const std::vector<AnswerChoice>& answers) {
  ForeignAnswer scored;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const GenerationRequest& request = question.choices[i];
    auto ids = recover_tokens(engine, request.prompt_ids, answers[i].text);
    if (!ids) {
      return cannot("tokenization", "no tokens of this model's vocabulary say the answer's bytes");
    }
    if (ended_by_itself(answers[i].finish, request) && !engine.eos_ids().empty()) {
      ids->push_back(engine.eos_ids().front());
    }
    if (ids->empty()) return cannot("no_output", "the answer is empty");
    auto score = score_choice(engine, request, std::move(*ids));
    if (!score) {
      const bool range = score.error().code == Errc::out_of_range;
      return cannot(range ? "range" : "parameters", score.error().message());
    }
    scored.choices.push_back(std::move(*score));
  }
  return scored;
}

}  // namespace

float ForeignScore::deficit_max() const {
  float most = 0;
  for (const float deficit : deficits) most = std::max(most, deficit);
  return most;
}

Result<ForeignAnswer> score_foreign(audit::RecordSource& reader, const RecordedLeaves& record,
                                    std::int64_t asked_us, Engine& engine) {
  const auto api = served_api(record.request.json);
  if (!api) return cannot("parameters", "this API is not one that the engine understands");
  if (engine.tokenizer() == nullptr) return cannot("tokenization", "the model has no tokenizer");
  const auto request = reader.content(record.request.index, "request.body");
  if (!request) return request.error();
  const auto response = reader.content(record.response->index, "response.body");
  if (!response) return response.error();

  // 1. The question, as the API means it: what it leaves out has the API's default.
  const auto asked = gateway::decode_content(text_at(record.request.json, {"coding", "name"}),
                                             request->bytes, kDecodedBytesMax);
  if (!asked) return cannot("malformed_record", "the recorded request cannot be unpacked");
  const auto question =
      gateway::read_local_request(*api, *asked, engine, asked_us, /*fresh_seed=*/0);
  if (!question) return cannot("parameters", question.error().message());
  for (const GenerationRequest& choice : question->choices) {
    if (choice.sampling.temperature != 0) {
      return cannot("unseeded", "the answer was sampled, with noise that only its engine knows");
    }
  }
  if (question->echo) return cannot("parameters", "'echo' mixes the prompt into the answer");

  // 2. The answer's text, by choice.
  std::string body = response->bytes;
  const auto coding = recorded_coding(reader, record.response->index);
  if (!coding) return coding.error();
  if (!coding->empty()) {
    auto decoded = gateway::decode_content(*coding, body, kDecodedBytesMax);
    if (!decoded) return cannot("malformed_record", decoded.error().message());
    body = std::move(*decoded);
  }
  const auto whole = whole_answer(*api, body);
  const auto answers = whole ? answer_choices(*api, *whole) : std::nullopt;
  if (!answers || answers->empty()) return cannot("no_output", "the body is no model's answer");
  if (answers->size() != question->choices.size()) {
    return cannot("malformed_record", "the answer has other choices than were asked for");
  }

  // 3. Its tokens, and what the engine thinks of them.
  return score_choices(engine, *question, *answers);
}

}  // namespace verbatim::replay
