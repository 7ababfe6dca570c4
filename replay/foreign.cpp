#include "replay/foreign.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/local_request.hpp"
#include "local_engine/tokenizer.hpp"
#include "replay/answer_body.hpp"
#include "replay/answer_stream.hpp"
#include "replay/compare.hpp"
#include "replay/recorded_headers.hpp"
#include "replay/verdict.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace verbatim::replay {

namespace {

using gateway::Api;
using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::TokenId;

constexpr std::size_t kDecodedBytesMax = 64u << 20;

ForeignAnswer cannot(const char* reason, std::string detail) {
  return ForeignAnswer{{}, "", {reason, std::move(detail)}};
}

/// The content coding that the recorded headers name; "" if none were recorded.
Result<std::string> recorded_coding(audit::RecordSource& reader, std::uint64_t index) {
  const auto headers = recorded_headers(reader, index);
  if (headers) return std::string(headers->get("content-encoding"));
  if (headers.error().code == Errc::not_found) return std::string();
  return headers.error();
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

using Tokens = std::vector<TokenId>;

/// One way in which an answer may have come from tokens, all of which are judged.
struct Way {
  Tokens ids;
  bool ended = false;  ///< the last is an end of sequence
};

/// What an answer of these tokens reads as: by itself, or as what goes on behind its prompt.
struct ReadAs {
  const local_engine::Tokenizer& tokenizer;
  const Tokens& prompt;
  std::string shown;  ///< of the prompt

  ReadAs(const Engine& engine, const Tokens& prompt_ids)
      : tokenizer(*engine.tokenizer()),
        prompt(prompt_ids),
        shown(tokenizer.decode(prompt_ids, /*skip_special=*/true)) {}

  /// What the tokens say behind `text`, in each reading in which they begin with it.
  [[nodiscard]] std::vector<std::string> behind(const Tokens& ids, const std::string& text) const {
    std::vector<std::string> more;
    const std::string alone = tokenizer.decode(ids, true);
    if (alone.starts_with(text)) more.push_back(alone.substr(text.size()));
    Tokens all = prompt;
    all.insert(all.end(), ids.begin(), ids.end());
    const std::string together = tokenizer.decode(all, true);
    if (together.starts_with(shown + text))
      more.push_back(together.substr(shown.size() + text.size()));
    return more;
  }
};

/// Tokens that say `text` behind this prompt, the likeliest first. Text does not tell how it was cut into tokens: the cut of
/// prompt and text as one is tried first, since a model goes on as it was trained to, then the text behind a line end (a
/// prompt that is not cut as its text would be does not show where it ends), then the text by itself.
std::vector<Tokens> cuts_of(const Engine& engine, const Tokens& prompt, const std::string& text) {
  const auto& tokenizer = *engine.tokenizer();
  const ReadAs read(engine, prompt);
  std::vector<Tokens> cuts;
  const auto add_behind = [&](std::size_t size, const Result<Tokens>& all) {
    Tokens ids(all->begin() + static_cast<std::ptrdiff_t>(size), all->end());
    const auto more = read.behind(ids, text);
    if (std::find(more.begin(), more.end(), "") == more.end()) return;
    if (std::find(cuts.begin(), cuts.end(), ids) == cuts.end()) cuts.push_back(std::move(ids));
  };
  const auto begins_with = [](const Result<Tokens>& all, const Tokens& part) {
    return all && all->size() >= part.size() && std::equal(part.begin(), part.end(), all->begin());
  };
  const std::string before = tokenizer.decode(prompt, /*skip_special=*/false);
  for (const bool add_special : {false, true}) {
    const auto all = tokenizer.encode((add_special ? read.shown : before) + text,
                                      {add_special, /*parse_special=*/!add_special});
    if (begins_with(all, prompt)) add_behind(prompt.size(), all);
  }
  const local_engine::EncodeOptions plain{/*add_special=*/false, /*parse_special=*/false};
  const auto anchor = tokenizer.encode("\n", plain);
  const auto anchored = tokenizer.encode("\n" + text, plain);
  if (anchor && begins_with(anchored, *anchor)) add_behind(anchor->size(), anchored);
  const auto alone = tokenizer.encode(text, plain);
  if (alone) add_behind(0, alone);
  return cuts;
}

/// The likeliest of them; nothing if no tokens say these bytes.
std::optional<Tokens> tokens_of(const Engine& engine, const Tokens& prompt,
                                const std::string& text) {
  auto cuts = cuts_of(engine, prompt, text);
  if (cuts.empty()) return std::nullopt;
  return std::move(cuts.front());
}

bool is_by_stop(const std::string& finish) { return finish == "stop" || finish == "stop_sequence"; }

/// The stop sequences that may have ended the answer.
std::vector<std::string> possible_stops(const GenerationRequest& request,
                                        const AnswerChoice& answer) {
  if (!is_by_stop(answer.finish)) return {};
  if (answer.stop_sequence.empty()) return request.stop;
  return {answer.stop_sequence};
}

/// The text as the model said it: some servers take its first space away.
std::vector<std::string> beginnings(const std::string& text) {
  if (text.empty() || text.starts_with(" ")) return {text};
  return {text, " " + text};
}

/// Ways in which an answer's text, and what ended it, may have come from tokens, the plainest first. None if no tokens say
/// its bytes.
std::vector<Way> recover_tokens(const Engine& engine, const GenerationRequest& request,
                                const AnswerChoice& answer) {
  std::vector<Way> ways;
  const auto add = [&](const std::string& text, bool ended) {
    for (Tokens& ids : cuts_of(engine, request.prompt_ids, text)) {
      if (ended) ids.push_back(engine.eos_ids().front());
      const bool known =
          std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.ids == ids; });
      if (!known) ways.push_back({std::move(ids), ended});
    }
  };
  const auto stops = possible_stops(request, answer);
  const bool by_itself =
      (answer.finish == "stop" || answer.finish == "end_turn") && !engine.eos_ids().empty();
  for (const std::string& text : beginnings(answer.text)) {
    if (by_itself || stops.empty()) add(text, by_itself);
    // The stop sequence was sampled too: its tokens are judged, though nobody was shown them.
    for (const std::string& stop : stops) add(text + stop, false);
  }
  return ways;
}

/// A stop sequence may end within a token, and a limit within a character, which a server shows as U+FFFD. What the engine
/// itself goes on with, from a few tokens before the end, tells whether the answer's end is such a one: the tokens up to
/// there, if `is_end_of` says so of what they say behind the text.
template <class IsEnd>
std::optional<Tokens> continued(Engine& engine, const GenerationRequest& request,
                                const std::string& text, IsEnd is_end_of) {
  constexpr std::size_t kBackMax = 3, kOnMax = 24;
  const auto plain = tokens_of(engine, request.prompt_ids, text);
  if (!plain) return std::nullopt;
  const ReadAs read(engine, request.prompt_ids);
  // From further back first: more of it is then the engine's own way of saying it.
  for (std::size_t back = std::min(kBackMax, plain->size()) + 1; back-- > 0;) {
    Tokens ids(plain->begin(), plain->end() - static_cast<std::ptrdiff_t>(back));
    GenerationRequest on = request;
    on.prompt_ids.insert(on.prompt_ids.end(), ids.begin(), ids.end());
    on.tokens_max = kOnMax;
    on.stop.clear();
    const auto said = engine.generate_and_wait(on);
    if (!said) return std::nullopt;
    for (const local_engine::TokenInfo& token : said->tokens) {
      ids.push_back(token.id);
      const auto more = read.behind(ids, text);
      if (std::any_of(more.begin(), more.end(), is_end_of)) return ids;
    }
  }
  return std::nullopt;
}

/// Bytes that begin a character of UTF-8 and are not all of it.
bool is_part_of_character(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto lead = static_cast<unsigned char>(bytes.front());
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  return bytes.size() < size && std::all_of(bytes.begin() + 1, bytes.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
         });
}

/// The answer ends in U+FFFD: the tokens, if that stands for the part of a character at which the limit ended it.
std::optional<Way> cut_within_character(Engine& engine, const GenerationRequest& request,
                                        const AnswerChoice& answer) {
  std::string text = answer.text;
  std::size_t count = 0;
  for (; text.ends_with(kReplacement); ++count) text.resize(text.size() - kReplacement.size());
  if (count == 0 || !is_by_limit(answer.finish)) return std::nullopt;
  for (const std::string& begun : beginnings(text)) {
    auto ids = continued(engine, request, begun, [&](const std::string& more) {
      return is_part_of_character(more) && (count == 1 || count == more.size());
    });
    if (ids) return Way{std::move(*ids), false};
  }
  return std::nullopt;
}

/// Is the prompt cut as its text would be? One that is given as token ids need not be, and then its text does not show where
/// the answer's begins.
bool is_cut_as_its_text(const Engine& engine, const Tokens& prompt) {
  const auto& tokenizer = *engine.tokenizer();
  for (const bool add_special : {false, true}) {
    const auto ids = tokenizer.encode(tokenizer.decode(prompt, /*skip_special=*/add_special),
                                      {add_special, /*parse_special=*/!add_special});
    if (ids && *ids == prompt) return true;
  }
  return false;
}

/// The answer was ended by a stop sequence that ends within a token.
std::optional<Way> stopped_within_token(Engine& engine, const GenerationRequest& request,
                                        const AnswerChoice& answer) {
  const auto stops = possible_stops(request, answer);
  if (stops.empty()) return std::nullopt;
  for (const std::string& begun : beginnings(answer.text)) {
    auto ids = continued(engine, request, begun, [&](const std::string& more) {
      return std::any_of(stops.begin(), stops.end(),
                         [&](const std::string& stop) { return more.starts_with(stop); });
    });
    if (ids) return Way{std::move(*ids), false};
  }
  return std::nullopt;
}

/// Seen in no text.
bool is_invisible(const Engine& engine, TokenId id) {
  return engine.tokenizer()->decode({id}, /*skip_special=*/true).empty();
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

/// The cut that the engine itself would have made: a text shows no special tokens, and not where one token ends. Where the
/// engine's choice is another token that says nothing, or the beginning of what the text goes on with, it is taken, and the
/// rest cut anew: that is the same text. The score of the cut in which the fewest tokens are not the engine's choice.
Result<ForeignScore> with_engines_cut(Engine& engine, const GenerationRequest& request,
                                      ForeignScore score, bool ended) {
  constexpr std::size_t kRecutMax = 16;
  const auto text_of = [&](const Tokens& ids) {
    return engine.tokenizer()->decode(ids, /*skip_special=*/true);
  };
  ForeignScore best = score;
  for (std::size_t i = 0; i < kRecutMax && score.differing > 0; ++i) {
    const auto& tokens = score.result.tokens;
    const auto first =
        std::find_if(tokens.begin(), tokens.end(), [](const auto& token) { return !token.chosen; });
    const TokenId chosen = first->best;
    if (is_end(engine, chosen) && !request.ignore_eos) break;
    Tokens before = request.prompt_ids, all = request.prompt_ids;
    const auto there = score.output_ids.begin() + (first - tokens.begin());
    before.insert(before.end(), score.output_ids.begin(), there);
    all.insert(all.end(), score.output_ids.begin(), score.output_ids.end());
    before.push_back(chosen);
    const std::string said = text_of(before), text = text_of(all);
    if (!text.starts_with(said) || (said.size() == text.size() && !is_invisible(engine, chosen)))
      break;
    const auto rest =
        said.size() == text.size() ? Tokens() : tokens_of(engine, before, text.substr(said.size()));
    if (!rest) break;
    Tokens ids(before.begin() + static_cast<std::ptrdiff_t>(request.prompt_ids.size()),
               before.end());
    ids.insert(ids.end(), rest->begin(), rest->end());
    if (ended) ids.push_back(engine.eos_ids().front());
    if (request.prompt_ids.size() + ids.size() + 1 > engine.kv_positions_max()) break;
    auto recut = score_choice(engine, request, std::move(ids));
    if (!recut) return recut;
    score = std::move(*recut);
    if (score.differing < best.differing) best = score;
  }
  return best;
}

Result<ForeignScore> score_way(Engine& engine, const GenerationRequest& request, const Way& way) {
  auto score = score_choice(engine, request, way.ids);
  if (score) score = with_engines_cut(engine, request, std::move(*score), way.ended);
  if (score) score->ended = way.ended;
  return score;
}

/// The score of the way in which the fewest tokens are not the engine's choice.
Result<ForeignScore> score_ways(Engine& engine, const GenerationRequest& request,
                                const std::vector<Way>& ways, const AnswerChoice& answer) {
  std::optional<ForeignScore> best;
  const auto try_way = [&](const Way& way) -> Result<void> {
    if (way.ids.empty()) return {};
    auto score = score_way(engine, request, way);
    if (!score) return score.error();
    if (!best || score->differing < best->differing) best = std::move(*score);
    return {};
  };
  for (const Way& way : ways) {
    if (auto tried = try_way(way); !tried) return tried.error();
    if (best && best->differing == 0) return std::move(*best);
  }
  for (const auto& within : {stopped_within_token(engine, request, answer),
                             cut_within_character(engine, request, answer)}) {
    if (!within) continue;
    if (auto tried = try_way(*within); !tried) return tried.error();
  }
  if (!best) return Error{Errc::not_found, "the answer is empty", "", ""};
  return std::move(*best);
}

/// Tokens are recovered from the text, where they may be a few more or less than were sampled.
bool is_far_below(std::size_t tokens, std::uint32_t limit) {
  return tokens + 2 < limit && tokens * 10 < std::size_t{limit} * 9;
}

/// The stop sequence of the request that occurs in the answer's own text, or "".
std::string stop_within(const GenerationRequest& request, const std::string& text) {
  for (const std::string& stop : request.stop) {
    if (text.find(stop) != std::string::npos) return stop;
  }
  return "";
}

/// `says_limit`: the request itself sets a limit of tokens, so that it is no default of the API's which servers know or not.
Result<ForeignAnswer> score_choices(Engine& engine, const gateway::LocalQuestion& question,
                                    const std::vector<AnswerChoice>& answers, bool says_limit) {
  ForeignAnswer scored;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const GenerationRequest& request = question.choices[i];
    if (const std::string& beside = answers[i].beside; !beside.empty()) {
      return cannot("tokenization", "the answer says something beside its text ('" +
                                        beside.substr(0, 64) +
                                        "'), and how that was cut from its tokens is not known");
    }
    if (const std::string held = stop_within(request, answers[i].text); !held.empty()) {
      return cannot("parameters", "the answer holds '" + held.substr(0, 64) +
                                      "', a stop sequence that would have ended it: its server "
                                      "takes them otherwise");
    }
    auto ways = recover_tokens(engine, request, answers[i]);
    if (ways.empty()) {
      return cannot("tokenization", "no tokens of this model's vocabulary say the answer's bytes");
    }
    const auto drop_longer_than = [&](std::size_t positions) {
      std::erase_if(ways, [&](const Way& way) {
        return request.prompt_ids.size() + way.ids.size() > positions;
      });
      return ways.empty();
    };
    if (drop_longer_than(engine.context_max())) {
      return cannot("range", "prompt and answer are longer than the model's context of " +
                                 std::to_string(engine.context_max()) + " tokens");
    }
    if (drop_longer_than(engine.kv_positions_max() - 1))
      return cannot("memory", "it needs more KV cache than is allowed here");
    auto score = score_ways(engine, request, ways, answers[i]);
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
    if (score->differing > 0 && answers[i].text.find(kReplacement) != std::string::npos) {
      return cannot("tokenization",
                    "the answer holds U+FFFD, in the place of bytes that its text has lost");
    }
    if (score->differing > 0 && !is_cut_as_its_text(engine, request.prompt_ids)) {
      return cannot("tokenization",
                    "the prompt is given in tokens that are not its text's own, so that the "
                    "answer's cannot be told");
    }
    const std::size_t shown = score->output_ids.size() - (score->ended ? 1 : 0);
    if (is_by_limit(answers[i].finish)) {
      if (is_far_below(shown, request.tokens_max)) score->limit_not_reached = request.tokens_max;
    } else if (!is_by_stop(answers[i].finish) && answers[i].finish != "end_turn") {
      score->unknown_end = answers[i].finish;
    }
    if (says_limit && shown > request.tokens_max) score->limit_exceeded = request.tokens_max;
    scored.choices.push_back(std::move(*score));
  }
  return scored;
}

/// The first member of a request whose effect on the answer is not known here; "" if there is none. A list of what is
/// known, not of what is not: the next server has one parameter more.
std::string unknown_member(Api api, const std::string& body) {
  static constexpr std::array kRead = {"model",
                                       "max_tokens",
                                       "max_completion_tokens",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "n",
                                       "seed",
                                       "logit_bias",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "ignore_eos",
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
  // What one API calls by a name is nothing to another.
  static const std::map<Api, std::vector<std::string_view>> kReadBy = {
      {Api::openai_chat, {"messages", "stop"}},
      {Api::openai_completions, {"prompt", "stop", "best_of", "echo"}},
      {Api::anthropic_messages, {"messages", "system", "stop_sequences"}}};
  const std::vector<std::string_view>& own = kReadBy.at(api);
  const auto json = parse_json(body);
  if (!json || !json->is_object()) return "";
  for (const auto& [name, value] : json->items()) {
    const auto is = [&member = name](std::string_view known) { return member == known; };
    if (value.is_null() || std::any_of(kRead.begin(), kRead.end(), is) ||
        std::any_of(own.begin(), own.end(), is) ||
        std::any_of(kWithoutEffect.begin(), kWithoutEffect.end(), is)) {
      continue;
    }
    return name;
  }
  return "";
}

bool has_member(const std::string& body, std::initializer_list<const char*> names) {
  const auto json = parse_json(body);
  return json && json->is_object() &&
         std::any_of(names.begin(), names.end(), [&](const char* name) {
           const auto found = json->find(name);
           return found != json->end() && !found->is_null();
         });
}

/// Servers go on with such a message, or answer it.
bool ends_with_the_assistant(const std::string& body) {
  const auto json = parse_json(body);
  if (!json || !json->is_object()) return false;
  const Json messages = json->value("messages", Json());
  return messages.is_array() && !messages.empty() &&
         text_at(messages.back(), {"role"}) == "assistant";
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
  if (const std::string name = unknown_member(*api, *asked); !name.empty()) {
    return cannot("parameters",
                  "what '" + name.substr(0, 64) + "' does to an answer is not known here");
  }
  if (ends_with_the_assistant(*asked)) {
    return cannot("parameters",
                  "the request ends with the assistant's own words, and how its server went on "
                  "with them is not known here");
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
  if (!coding && coding.error().code == Errc::invalid_input)
    return cannot("malformed_record", coding.error().message());
  if (!coding) return coding.error();
  if (!coding->empty()) {
    auto decoded = gateway::decode_content(*coding, body, kDecodedBytesMax);
    if (!decoded) return cannot("malformed_record", decoded.error().message());
    body = std::move(*decoded);
  }
  if (is_stream(body)) {
    if (const std::string beside = beside_in_stream(*api, body); !beside.empty()) {
      return cannot("tokenization", "the stream says something beside its text ('" +
                                        beside.substr(0, 64) +
                                        "'), or clients read it in several ways");
    }
  }
  const auto whole = whole_answer(*api, body);
  const auto answers = whole ? answer_choices(*api, *whole) : std::nullopt;
  if (!answers || answers->empty()) return cannot("no_output", "the body is no model's answer");
  if (answers->size() != question->choices.size()) {
    return cannot("malformed_record", "the answer has other choices than were asked for");
  }

  // 3. Its tokens, and what the engine thinks of them.
  const bool says_limit = has_member(*asked, {"max_tokens", "max_completion_tokens"});
  auto scored = score_choices(engine, *question, *answers, says_limit);
  if (!scored || scored->choices.empty()) return scored;
  for (const Defaults& defaults : possible_defaults(engine, *asked)) {
    if (differing_in(*scored) == 0) break;
    for (GenerationRequest& choice : question->choices) {
      choice.sampling.repetition_penalty = defaults.repetition_penalty;
      choice.sampling.penalty_window = defaults.window;
    }
    auto by_defaults = score_choices(engine, *question, *answers, says_limit);
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
