#include "replay/sent_answer.hpp"

#include "gateway/canonical_output.hpp"
#include "gateway/leaf_texts.hpp"
#include "gateway/local_answer.hpp"
#include "gateway/response_facts.hpp"
#include "local_engine/output_text.hpp"
#include "replay/compare.hpp"
#include "replay/recorded_headers.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace verbatim::replay {

namespace {

using gateway::Api;
using gateway::LocalChoice;
using local_engine::Engine;
using local_engine::FinishReason;
using local_engine::GenerationRequest;
using local_engine::TokenId;

constexpr std::int64_t kClockSlackS = 5, kAnswerWithinS = 3600;
constexpr std::size_t kDecodedBytesMax = std::size_t{1} << 30;

/// The choice as the gateway had it before it when it wrote the answer. `scored`: log-probabilities, if they were asked for.
/// Nothing if tokens stand behind a stop sequence.
std::optional<LocalChoice> choice_as_answered(const Engine& engine,
                                              const GenerationRequest& request,
                                              const std::vector<TokenId>& ids,
                                              const local_engine::GenerationResult* scored) {
  LocalChoice choice;
  auto& result = choice.result;
  local_engine::OutputText output(engine.tokenizer(), request.stop, token_before(request));
  result.finish = FinishReason::length;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    local_engine::TokenInfo info;
    if (scored != nullptr && i < scored->tokens.size()) info = scored->tokens[i];
    info.id = ids[i];
    const bool last = i + 1 == ids.size();
    const bool is_eos = !request.ignore_eos && is_end(engine, ids[i]);
    local_engine::OutputText::Piece piece;
    if (!is_eos) piece = output.push(ids[i]);
    if (last && piece.stop_sequence.empty()) {
      auto rest = output.finish();
      piece.text += rest.text;
      piece.stop_sequence = std::move(rest.stop_sequence);
    }
    if (!piece.stop_sequence.empty() && !last) return std::nullopt;
    if (is_eos || !piece.stop_sequence.empty()) result.finish = FinishReason::stop;
    result.stop_sequence = piece.stop_sequence;
    result.text += piece.text;
    info.text = std::move(piece.text);
    result.tokens.push_back(std::move(info));
  }
  result.prompt_tokens = request.prompt_ids.size();
  choice.given = result.text.size();
  choice.done = true;
  return choice;
}

/// `created` of an answer's first JSON object; nothing if it has none.
std::optional<std::int64_t> created_in(std::string_view body) {
  constexpr std::string_view kData = "data: ";
  std::string_view first = body;
  if (body.starts_with(kData)) {
    first = body.substr(kData.size(), body.find("\n\n") - kData.size());
  }
  const auto json = parse_json(first);
  if (!json || !json->is_object()) return std::nullopt;
  const auto created = json->find("created");
  if (created == json->end() || !created->is_number_integer()) return std::nullopt;
  return created->get<std::int64_t>();
}

/// A stream's events, each with its empty line. What is behind the last is an event too, and so is a comment: those that the
/// gateway puts between events are in no record.
std::vector<std::string_view> events_in(std::string_view stream) {
  std::vector<std::string_view> events;
  while (!stream.empty()) {
    const std::size_t end = stream.find("\n\n");
    const std::size_t size = end == std::string_view::npos ? stream.size() : end + 2;
    events.push_back(stream.substr(0, size));
    stream.remove_prefix(size);
  }
  return events;
}

std::string unlike_event(std::size_t place) {
  return "event " + std::to_string(place) +
         " of the stream that went out is not what the recorded tokens make";
}

/// The stream against what its parts must be: the beginning, the events of each choice in any interleaving, the end.
std::string unlike_stream(std::string_view body, const std::string& begin,
                          const std::vector<std::string>& of_choices, const std::string& end) {
  const auto sent = events_in(body);
  const auto first = events_in(begin), last = events_in(end);
  std::vector<std::vector<std::string_view>> left;
  std::size_t expected = first.size() + last.size();
  for (const std::string& events : of_choices) {
    left.push_back(events_in(events));
    expected += left.back().size();
    std::reverse(left.back().begin(), left.back().end());
  }
  for (std::size_t i = 0; i < std::min(sent.size(), expected); ++i) {
    const std::size_t behind = i + last.size();
    if (i < first.size() || behind >= expected) {
      const std::string_view must = i < first.size() ? first[i] : last[behind - expected];
      if (sent[i] != must) return unlike_event(i);
      continue;
    }
    // An event names its choice: no two choices have the same next one.
    const auto choice = std::find_if(left.begin(), left.end(), [&](const auto& events) {
      return !events.empty() && events.back() == sent[i];
    });
    if (choice == left.end()) return unlike_event(i);
    choice->pop_back();
  }
  if (sent.size() == expected) return "";
  return "the stream that went out has " + std::to_string(sent.size()) + " events, and " +
         std::to_string(expected) + " are what the recorded tokens make";
}

std::string unlike_whole(std::string_view body, std::string_view must) {
  if (body == must) return "";
  const auto [at, unused] = std::mismatch(body.begin(), body.end(), must.begin(), must.end());
  return "the body that went out is not what the recorded tokens make, from byte " +
         std::to_string(at - body.begin()) + " on";
}

/// What the headers say of the body, and of the seed. Nothing where they were not kept, or are not disclosed.
Result<std::string> unlike_headers(audit::RecordSource& reader, const RecordedLeaves& record,
                                   bool stream, std::uint64_t seed) {
  const auto headers = recorded_headers(reader, record.response->index);
  if (!headers) {
    const Errc code = headers.error().code;
    if (code == Errc::not_found || code == Errc::unavailable) return std::string();
    if (code == Errc::invalid_input) return headers.error().what;
    return headers.error();
  }
  const std::string_view must = stream ? "text/event-stream; charset=utf-8" : "application/json";
  const auto times = [&](std::string_view name) {
    return std::count_if(headers->all().begin(), headers->all().end(),
                         [&](const auto& field) { return gateway::same_word(field.name, name); });
  };
  if (times("content-type") > 1) return std::string("the answer went out under two content types");
  const std::string* const named = headers->find("x-verbatim-record");
  if (named != nullptr && *named != text_at(record.request.json, {"id"}))
    return std::string("the client was told the id of another record");
  const std::string* const type = headers->find("content-type");
  if (type != nullptr && *type != must) {
    return "the answer went out as '" + type->substr(0, 64) + "', which its body is not";
  }
  if (headers->has("content-encoding"))
    return std::string("the answer went out under a content coding that it does not have");
  const std::string* const told = headers->find("x-verbatim-seed");
  if (told != nullptr && *told != std::to_string(seed)) {
    return std::string("the client was told another seed than the one in use");
  }
  return std::string();
}

/// What the response leaf says beside its contents. `stream`: the body is one. `usage`: what was counted;
/// null: what the body says.
std::string unlike_leaf(const Json& response, const SentAnswer& sent, bool stream,
                        std::string_view body, const Json* usage) {
  gateway::ResponseFacts facts(sent.api);
  if (stream) {
    facts.read_stream(body);
  } else {
    facts.read_json(body);
  }
  Json read = Json::object();
  facts.describe(read);
  const auto finish = response.find("finish");
  if (finish != response.end() && *finish != read.value("finish", Json())) {
    return "the response's leaf says that the answer ended otherwise than its body";
  }
  const auto said = response.find("upstream");
  if (said != response.end() && *said != read.value("upstream", Json()))
    return "the response's leaf says something else of who answered than its body";
  const auto cache = response.find("cache");
  const bool is_hit = text_at(response, {"status"}) == "cache_hit";
  if (cache != response.end() && (*cache == "hit") != is_hit)
    return "the response's leaf says otherwise of the cache than its status";
  const Json engine = response.value("engine", Json());
  const Json counted = engine.is_object() ? engine.value("choices", Json()) : Json();
  for (std::size_t i = 0; counted.is_array() && i < counted.size(); ++i) {
    const Json tokens = counted[i].is_object() ? counted[i].value("tokens", Json()) : Json();
    const bool is_there = i < sent.choices.size();
    if (!is_there || (!tokens.is_null() && tokens != sent.choices[i].output_ids.size())) {
      return "the response's leaf counts other tokens than are recorded";
    }
  }
  const auto status = response.find("http_status");
  if (status != response.end() && *status != 200) return "the recorded HTTP status is not 200";
  const auto told = response.find("usage");
  if (told != response.end() && *told != (usage ? *usage : read.value("usage", Json())))
    return "the recorded usage is not that of the recorded tokens";
  if (response.contains("response_body"))
    return "the leaf says that its body was recorded in part, and what the engine says never is";
  return "";
}

/// Log-probabilities are not recorded by themselves: they are computed again where the answer shows them.
Result<std::vector<LocalChoice>> choices_as_answered(const SentAnswer& sent, Engine& engine) {
  std::vector<LocalChoice> choices;
  for (std::size_t i = 0; i < sent.choices.size(); ++i) {
    const GenerationRequest& request = sent.question.choices[i];
    const auto& ids = sent.choices[i].output_ids;
    std::optional<local_engine::GenerationResult> scored;
    if (sent.question.logprobs) {
      auto result = engine.score(request, ids);
      if (!result) return result.error();
      scored = std::move(*result);
    }
    auto choice = choice_as_answered(engine, request, ids, scored ? &*scored : nullptr);
    if (!choice) return std::vector<LocalChoice>();
    choices.push_back(std::move(*choice));
  }
  return choices;
}

std::string unlike_body(const SentAnswer& sent, const gateway::LocalAnswer& answer,
                        const std::vector<LocalChoice>& choices, std::string_view body) {
  if (!sent.question.stream) return unlike_whole(body, answer.whole(choices));
  std::vector<std::string> of_choices;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::string& events = of_choices.emplace_back();
    for (const auto& token : choices[i].result.tokens) {
      events += answer.piece(i, token.text, &token);
    }
    events += answer.finish(i, choices[i]);
  }
  return unlike_stream(body, answer.begin(), of_choices, answer.end(choices));
}

}  // namespace

std::string unlike_request(const Json& request, Api api, std::string_view body,
                           const std::string& weights) {
  const gateway::RequestFacts facts = gateway::read_request(api, body);
  const std::string measured = text_at(request, {"model", "weights_sha256"});
  if (!measured.empty() && measured != weights) return "the request's leaf names other weights";
  const std::string determinism = text_at(request, {"determinism"});
  if (!determinism.empty() && determinism != gateway::determinism_of(facts))
    return "the request's leaf says that it is " + determinism.substr(0, 64) +
           ", and its body does not";
  const std::string upstream = text_at(request, {"route", "upstream"});
  if (!upstream.empty() && upstream != "local")
    return "the request's leaf says that " + upstream.substr(0, 64) +
           " answered, and the local engine did";
  const std::string level = text_at(request, {"model", "level"});
  if (!level.empty() && level != "measured")
    return "the request's leaf says that nobody here hashed the weights";
  const Json params = request.value("params", Json::object());
  if (!params.is_object()) return "the request's leaf has parameters that are none";
  const auto another = [](const std::string& name) {
    return "the request's leaf has another '" + name.substr(0, 64) + "' than its body";
  };
  for (const auto& [name, value] : facts.params) {
    if (gateway::is_leaf_param(name, value) && !params.contains(name)) return another(name);
  }
  for (const auto& [name, value] : params.items()) {
    const auto sent =
        std::find_if(facts.params.begin(), facts.params.end(),
                     [&member = name](const auto& param) { return param.first == member; });
    if (sent == facts.params.end() || value != sent->second) return another(name);
  }
  return "";
}

Result<std::string> unlike_sent(audit::RecordSource& reader, const SentAnswer& sent,
                                Engine& engine) {
  const audit::StoredLeaf& response = *sent.record.response;
  const auto body = reader.content(response.index, "response.body");
  if (!body) return body.error();

  const auto choices = choices_as_answered(sent, engine);
  if (!choices) return "its log-probabilities cannot be computed: " + choices.error().message();
  if (choices->empty()) return std::string("tokens are recorded behind a stop sequence");
  const Json usage = gateway::describe_usage(sent.question, *choices);
  std::string unlike = unlike_leaf(response.json, sent, sent.question.stream, body->bytes, &usage);
  if (!unlike.empty()) return unlike;
  auto headers = unlike_headers(reader, sent.record, sent.question.stream, sent.question.seed);
  if (!headers || !headers->empty()) return headers;

  std::int64_t created_s = 0;
  if (sent.api != Api::anthropic_messages) {
    const auto created = created_in(body->bytes);
    const auto asked_us = parse_rfc3339(text_at(sent.record.request.json, {"time"}));
    if (!asked_us) return asked_us.error();
    const std::int64_t asked_s = *asked_us / 1'000'000;
    if (!created || *created < asked_s - kClockSlackS || *created > asked_s + kAnswerWithinS) {
      return std::string(
          "the body that went out does not say when it was made, or says another time");
    }
    created_s = *created;
  }
  const gateway::LocalAnswer answer(
      sent.api, sent.question, engine, text_at(response.json, {"id"}), created_s * 1'000'000,
      gateway::local_fingerprint(text_at(response.json, {"engine", "build"}),
                                 text_at(response.json, {"engine", "numerics_profile"}),
                                 text_at(response.json, {"engine", "weights_sha256"})));
  return unlike_body(sent, answer, *choices, body->bytes);
}

Result<std::string> unlike_hit(audit::RecordSource& reader, const SentAnswer& origin,
                               const RecordedLeaves& hit, const gateway::LocalQuestion& question) {
  const auto stored = reader.content(origin.record.response->index, "response.body");
  if (!stored) return stored.error();
  const auto body = reader.content(hit.response->index, "response.body");
  if (!body) return body.error();
  auto headers = unlike_headers(reader, hit, question.stream, origin.question.seed);
  if (!headers || !headers->empty()) return headers;
  const Json kept = Json::array({Json::array(
      {"content-type", origin.question.stream ? "text/event-stream" : "application/json"})});
  const auto must = gateway::answer_in_shape(
      origin.api,
      {origin.record.request.json, origin.record.response->json, kept.dump(), stored->bytes},
      {question.stream, question.include_usage, ""}, kDecodedBytesMax);
  if (!must)
    return "its origin's answer cannot be given in the shape asked for: " + must.error().what;
  std::string unlike = unlike_whole(body->bytes, must->body);
  if (!unlike.empty()) return "it is a hit, and not its origin's answer: " + unlike;
  const Json& own = hit.response->json;
  const Json& first = origin.record.response->json;
  unlike = unlike_leaf(own, origin, question.stream, body->bytes, nullptr);
  if (unlike.empty() && own.contains("engine") && own["engine"] != first.value("engine", Json()))
    unlike = "the hit's leaf says that another engine computed it than its origin's";
  return unlike;
}

}  // namespace verbatim::replay
