#include "replay/foreign.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/http.hpp"
#include "gateway/local_request.hpp"
#include "replay/answer_body.hpp"
#include "replay/compare.hpp"
#include "replay/verdict.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace verbatim::replay {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::TokenId;

constexpr std::size_t kDecodedBytesMax = 64u << 20;

ForeignAnswer cannot(const char* reason, std::string detail) {
  return ForeignAnswer{{}, "", {reason, std::move(detail)}};
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
std::optional<std::vector<TokenId>> tokens_of(const Engine& engine,
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

/// Those of the first tokens that end within `bytes` of the text.
std::vector<TokenId> within_bytes(const Engine& engine, std::vector<TokenId> ids,
                                  std::size_t bytes) {
  while (!ids.empty() && engine.tokenizer()->decode(ids, true).size() > bytes) ids.pop_back();
  return ids;
}

/// Ways in which an answer's text may have come from tokens, the plainest first. None if no tokens say its bytes.
///
/// A stop sequence may end within a token, of which the text then has a part, and a limit within a character, which a server
/// shows as U+FFFD: what is cut there is not judged. Some servers take the first space of an answer away.
std::vector<std::vector<TokenId>> recover_tokens(const Engine& engine,
                                                 const GenerationRequest& request,
                                                 const AnswerChoice& answer) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::vector<std::vector<TokenId>> ways;
  const auto add = [&](std::optional<std::vector<TokenId>> ids) {
    if (ids && std::find(ways.begin(), ways.end(), *ids) == ways.end())
      ways.push_back(std::move(*ids));
  };
  std::string text = answer.text;
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  const bool is_cut = text.size() != answer.text.size();
  for (const std::string& begun : {text, " " + text}) {
    if (begun != text && (text.empty() || text.starts_with(" "))) continue;
    auto plain = tokens_of(engine, request.prompt_ids, begun);
    const bool is_stopped =
        !request.stop.empty() && (answer.finish == "stop" || answer.finish == "stop_sequence");
    add(plain);
    if ((is_cut || is_stopped) && plain && !plain->empty())
      add(std::vector<TokenId>(plain->begin(), plain->end() - 1));
    if (!is_stopped) continue;
    for (const std::string& stop : request.stop) {
      auto ids = tokens_of(engine, request.prompt_ids, begun + stop);
      if (ids) add(within_bytes(engine, std::move(*ids), begun.size()));
    }
  }
  return ways;
}

/// Seen in no text.
bool is_invisible(const Engine& engine, TokenId id) {
  return engine.tokenizer()->decode({id}, /*skip_special=*/true).empty();
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

/// A text does not show special tokens: where the engine would have chosen one, and with it in its place the answer is
/// nearer to the engine's own, it was there.
Result<ForeignScore> with_invisible_tokens(Engine& engine, const GenerationRequest& request,
                                           ForeignScore score, bool ended) {
  constexpr std::size_t kInvisibleMax = 16;
  for (std::size_t i = 0; i < kInvisibleMax && score.differing > 0; ++i) {
    const auto& tokens = score.result.tokens;
    const auto first =
        std::find_if(tokens.begin(), tokens.end(), [](const auto& token) { return !token.chosen; });
    const TokenId best = first->best;
    if (!is_invisible(engine, best) || (is_end(engine, best) && !request.ignore_eos)) break;
    // What follows it was cut into tokens by itself.
    auto before = request.prompt_ids;
    before.insert(before.end(), score.output_ids.begin(),
                  score.output_ids.begin() + (first - tokens.begin()));
    const std::vector<TokenId> after(score.output_ids.begin() + (first - tokens.begin()),
                                     score.output_ids.end());
    before.push_back(best);
    const auto rest = tokens_of(engine, before, engine.tokenizer()->decode(after, true));
    if (!rest) break;
    std::vector<TokenId> ids(
        before.begin() + static_cast<std::ptrdiff_t>(request.prompt_ids.size()), before.end());
    ids.insert(ids.end(), rest->begin(), rest->end());
    if (ended) ids.push_back(engine.eos_ids().front());
    auto longer = score_choice(engine, request, std::move(ids));
    if (!longer) return longer;
    if (longer->differing >= score.differing) break;
    score = std::move(*longer);
  }
  return score;
}

/// The score of the way in which the fewest tokens are not the engine's choice. `ended`: an end of sequence follows.
Result<ForeignScore> score_ways(Engine& engine, const GenerationRequest& request,
                                const std::vector<std::vector<TokenId>>& ways, bool ended) {
  std::optional<ForeignScore> best;
  for (std::vector<TokenId> ids : ways) {
    if (ended) ids.push_back(engine.eos_ids().front());
    if (ids.empty()) continue;
    auto score = score_choice(engine, request, std::move(ids));
    if (score) score = with_invisible_tokens(engine, request, std::move(*score), ended);
    if (!score) return score;
    if (!best || score->differing < best->differing) best = std::move(*score);
    if (best->differing == 0) break;
  }
  if (!best) return Error{Errc::not_found, "the answer is empty", "", ""};
  return std::move(*best);
}

/// Tokens are recovered from the text, where they may be a few more or less than were sampled.
bool is_far_below(std::size_t tokens, std::uint32_t limit) {
  return tokens + 2 < limit && tokens * 10 < std::size_t{limit} * 9;
}

Result<ForeignAnswer> score_choices(Engine& engine, const gateway::LocalQuestion& question,
                                    const std::vector<AnswerChoice>& answers) {
  ForeignAnswer scored;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const GenerationRequest& request = question.choices[i];
    if (const std::string& beside = answers[i].beside; !beside.empty()) {
      return cannot("tokenization", "the answer says something beside its text ('" +
                                        beside.substr(0, 64) +
                                        "'), and how that was cut from its tokens is not known");
    }
    const auto ways = recover_tokens(engine, request, answers[i]);
    if (ways.empty()) {
      return cannot("tokenization", "no tokens of this model's vocabulary say the answer's bytes");
    }
    for (const auto& ids : ways) {
      if (request.prompt_ids.size() + ids.size() + 1 > engine.kv_positions_max())
        return cannot("memory", "it needs more KV cache than is allowed here");
    }
    const bool ended = ended_by_itself(answers[i].finish, request) && !engine.eos_ids().empty();
    auto score = score_ways(engine, request, ways, ended);
    if (!score) {
      switch (score.error().code) {
        case Errc::out_of_range:
          return cannot("range", score.error().message());
        case Errc::not_found:
          return cannot("no_output", score.error().what);
        default:
          return cannot("parameters", score.error().message());
      }
    }
    score->ended = ended;
    if (is_by_limit(answers[i].finish) &&
        is_far_below(score->output_ids.size(), request.tokens_max))
      score->limit_not_reached = request.tokens_max;
    scored.choices.push_back(std::move(*score));
  }
  return scored;
}

/// The first member of a request whose effect on the answer is not known here; "" if there is none. A list of what is
/// known, not of what is not: the next server has one parameter more.
std::string unknown_member(const std::string& body) {
  static constexpr std::array kRead = {"model",
                                       "messages",
                                       "prompt",
                                       "system",
                                       "max_tokens",
                                       "max_completion_tokens",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "n",
                                       "best_of",
                                       "seed",
                                       "stop",
                                       "stop_sequences",
                                       "logit_bias",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "ignore_eos",
                                       "echo",
                                       "logprobs",
                                       "top_logprobs",
                                       "response_format",
                                       "tools",
                                       "modalities"};
  static constexpr std::array kWithoutEffect = {"stream",
                                                "stream_options",
                                                "user",
                                                "metadata",
                                                "store",
                                                "service_tier",
                                                "safety_identifier",
                                                "prompt_cache_key",
                                                "prompt_cache_retention",
                                                "cache_prompt",
                                                "request_id",
                                                "priority",
                                                "return_tokens_as_token_ids",
                                                "return_token_ids",
                                                "timings_per_token",
                                                "keep_alive"};
  const auto json = parse_json(body);
  if (!json || !json->is_object()) return "";
  for (const auto& [name, value] : json->items()) {
    const auto is = [&member = name](const char* known) { return member == known; };
    if (value.is_null() || std::any_of(kRead.begin(), kRead.end(), is) ||
        std::any_of(kWithoutEffect.begin(), kWithoutEffect.end(), is)) {
      continue;
    }
    return name;
  }
  return "";
}

/// What a server may have put in the place of parameters that the request leaves out, and that change a greedy answer.
struct Defaults {
  float repetition_penalty;
  std::uint32_t window;
  std::string words;
};

/// Those of the model's folder, which vLLM and SGLang take, and those of Ollama's own.
std::vector<Defaults> possible_defaults(const Engine& engine, const std::string& body) {
  const auto json = parse_json(body);
  if (!json || json->contains("repetition_penalty") || json->contains("repeat_penalty")) return {};
  std::vector<Defaults> possible;
  if (const float penalty = engine.suggested_repetition_penalty(); penalty != 1)
    possible.push_back(
        {penalty, 0,
         "repetition_penalty " + decimal(penalty) + ", of the model's generation_config.json"});
  possible.push_back({1.1F, 64, "repeat_penalty 1.1 over the last 64 tokens, Ollama's default"});
  return possible;
}

std::size_t differing_in(const ForeignAnswer& answer) {
  std::size_t differing = 0;
  for (const ForeignScore& choice : answer.choices) differing += choice.differing;
  return differing;
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
  if (const std::string name = unknown_member(*asked); !name.empty()) {
    return cannot("parameters",
                  "what '" + name.substr(0, 64) + "' does to an answer is not known here");
  }
  auto question = gateway::read_local_request(*api, *asked, engine, asked_us, /*fresh_seed=*/0);
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
  auto scored = score_choices(engine, *question, *answers);
  if (!scored || scored->choices.empty()) return scored;
  for (const Defaults& defaults : possible_defaults(engine, *asked)) {
    if (differing_in(*scored) == 0) break;
    for (GenerationRequest& choice : question->choices) {
      choice.sampling.repetition_penalty = defaults.repetition_penalty;
      choice.sampling.penalty_window = defaults.window;
    }
    auto by_defaults = score_choices(engine, *question, *answers);
    if (!by_defaults || by_defaults->choices.empty() ||
        differing_in(*by_defaults) >= differing_in(*scored)) {
      continue;
    }
    scored = std::move(by_defaults);
    scored->defaults = defaults.words;
  }
  if (differing_in(*scored) > 0 && question->choices.front().ignore_eos) {
    return cannot("tokenization",
                  "with 'ignore_eos' ends of sequence stand in the answer, and its text does not "
                  "show where");
  }
  return scored;
}

}  // namespace verbatim::replay
