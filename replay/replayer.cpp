#include "replay/replayer.hpp"

#include "gateway/local_answer.hpp"
#include "replay/answer_body.hpp"
#include "replay/binding.hpp"
#include "replay/foreign_verdict.hpp"
#include "replay/kept_activations.hpp"
#include "replay/recorded.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace verbatim::replay {

namespace {

Verdict& cannot(Verdict& verdict, const char* reason, std::string detail) {
  verdict.kind = VerdictKind::not_replayable;
  verdict.reason = reason;
  verdict.detail = std::move(detail);
  return verdict;
}

Verdict& was_pruned(Verdict& verdict, std::string detail) {
  verdict.kind = VerdictKind::pruned;
  verdict.reason = "pruned";
  verdict.detail = std::move(detail);
  return verdict;
}

/// Of a hit whose origin has no answer here.
Verdict& without_origin(Verdict& verdict, const Result<RecordedLeaves>& origin) {
  if (!origin && origin.error().code == Errc::erased) {
    return was_pruned(verdict, "the hit's origin was pruned");
  }
  return cannot(verdict, "malformed_record", "the hit's origin is not in the log");
}

/// Turns a failure to read contents into its verdict. Returns false when it is a failure of the log itself.
bool verdict_of_content_error(const Error& error, Verdict& verdict) {
  switch (error.code) {
    case Errc::erased:
      verdict.kind = VerdictKind::erased;
      verdict.reason = "erased";
      verdict.detail = error.message();
      return true;
    case Errc::not_found:
      cannot(verdict, "no_tokens", error.message());
      return true;
    case Errc::unavailable:
      cannot(verdict, "not_disclosed", error.message());
      return true;
    case Errc::tampered:
    case Errc::invalid_input:
      cannot(verdict, "malformed_record", error.message());
      return true;
    default:
      return false;
  }
}

/// Why there is no engine for a record whose weights are known.
const char* reason_without_engine(const Error& error) {
  switch (error.code) {
    case Errc::not_found:
      return "weights_missing";
    case Errc::unsupported:
      return "unsupported";
    case Errc::out_of_range:
      return "range";
    case Errc::unavailable:
      return "memory";
    default:
      return "weights_unreadable";
  }
}

/// Leaves of earlier versions said the digests themselves.
void take_digests_of_leaf(const Json& response, std::vector<RecordedChoice>& choices) {
  const auto engine = response.find("engine");
  if (engine == response.end() || !engine->is_object()) return;
  const Json list = engine->value("choices", Json::array());
  if (!list.is_array()) return;
  for (std::size_t i = 0; i < choices.size() && i < list.size(); ++i) {
    const std::string digest = text_at(list[i], {"logits_digest"});
    if (choices[i].logits_digest.empty()) choices[i].logits_digest = digest;
  }
}

/// Was the answer written in the bytes in which this gateway would write it?
bool written_here(const Json& response) {
  const auto engine = response.find("engine");
  return engine != response.end() && engine->is_object() &&
         engine->value("answer_format", Json()) == gateway::kAnswerFormat;
}

/// The computation is the engine's; what was asked or what went out is not what it was of.
void say_unbound(const Binding& bound, const Json& response, Verdict& verdict) {
  verdict.kind = VerdictKind::diverged;
  verdict.reason = bound.reason;
  verdict.detail = bound.detail;
  verdict.hypotheses = {bound.reason == "prompt" ? "prompt" : "edited"};
  verdict.character = bound.character;
  if (bound.reason != "text" || written_here(response)) return;
  verdict.kind = VerdictKind::not_replayable;
  verdict.reason = "writer_differs";
  verdict.detail =
      "every token and its logits are the engine's; another version of the gateway wrote the "
      "answer, and not as this one "
      "does: " +
      bound.detail;
  verdict.hypotheses.clear();
}

/// Which of two choices is to stand for the record, and its text be shown: of those that diverged the first, else the one
/// that was nearest to another.
bool is_worse(const Verdict& one, const Verdict& other) {
  if (badness(one.kind) != badness(other.kind)) return badness(one.kind) > badness(other.kind);
  return one.kind != VerdictKind::diverged && smallest_margin(one) < smallest_margin(other);
}

/// An answer that a remote endpoint gave, by the engine that the operator vouches for.
Result<Verdict> replay_foreign(audit::RecordSource& reader, const RecordedLeaves& asked,
                               const RecordedLeaves& computed, const ReplayWith& with,
                               Verdict verdict) {
  if (!with.engines.vouches_for(verdict.model)) {
    return cannot(verdict, "remote",
                  "nobody says which weights " + verdict.model +
                      " is: if you know, give --engine " + verdict.model + "=PATH");
  }
  const auto engine = with.engines.vouched(verdict.model);
  if (!engine) {
    if (with.engines.failed()) return engine.error();
    return cannot(verdict, reason_without_engine(engine.error()), engine.error().message());
  }
  const std::string weights = (*engine)->fingerprint().weights_sha256.hex();
  verdict.engine = describe(**engine);
  verdict.claimed_weights = true;
  verdict.method = "score";
  const Calibration* calibration = with.calibration;
  std::string why_none;
  if (calibration != nullptr &&
      (calibration->weights_sha256 != weights || calibration->profile != verdict.engine->profile)) {
    why_none = "the calibration that was given is one for other weights (" +
               calibration->weights_sha256.substr(0, 16) + ", " + calibration->profile +
               "): it says nothing of these";
    calibration = nullptr;
  }
  if (calibration != nullptr) {
    verdict.tolerance =
        Tolerance{sha256(calibration_text(*calibration)).hex(), decimal(calibration->threshold),
                  ecmascript_number(calibration->alpha)};
  }
  const std::int64_t start_us = with.clock.steady_us();
  const auto answer = score_foreign(reader, asked, time_at(computed.request.json), **engine);
  if (!answer) {
    if (verdict_of_content_error(answer.error(), verdict)) return verdict;
    return answer.error();
  }
  if (!answer->cannot.reason.empty()) {
    return cannot(verdict, answer->cannot.reason.c_str(), answer->cannot.detail);
  }
  Verdict worst = verdict;
  for (std::size_t i = 0; i < answer->choices.size(); ++i) {
    Verdict one = verdict;
    one.choice = i;
    one.tokens = worst.tokens;
    one.margins = worst.margins;
    judge_foreign(answer->choices[i], **engine, calibration, why_none, one);
    one.defaults = answer->defaults;
    if (!answer->defaults.empty()) {
      one.detail += (one.detail.empty() ? "" : "; ") + std::string("with ") + answer->defaults +
                    ", which the request leaves open";
    }
    const std::size_t tokens = one.tokens, differing = worst.differing + one.differing;
    const MarginCounts margins = one.margins;
    if (i == 0 || is_worse(one, worst)) worst = one;
    worst.tokens = tokens;
    worst.differing = i == 0 ? worst.differing : differing;
    worst.margins = margins;
  }
  worst.choices = answer->choices.size();
  worst.seconds = static_cast<double>(with.clock.steady_us() - start_us) / 1e6;
  return worst;
}

/// Of a record whose model has changed since: what of it, as far as the log tells.
Verdict& other_model(audit::RecordSource& reader, const std::string& weights,
                     const audit::StoredLeaf& response, const ReplayWith& with, Verdict& verdict) {
  const auto recorded = with.models.find(reader, weights);
  const auto here = with.engines.parts_of(verdict.model);
  const bool explains = !with.explain && keeps_layers(response);
  const std::string advice = " (recorded with weights " + weights.substr(0, 16) +
                             "; if you have them, name them too: --engine " + verdict.model +
                             "=PATH" +
                             (explains ? "; the record keeps digests of its layers: --explain "
                                         "names the first that differs"
                                       : "") +
                             ")";
  if (!recorded || !here) {
    return cannot(verdict, "weights_differ",
                  verdict.model +
                      " has other weights, another configuration, tokenizer or "
                      "template than when it was recorded" +
                      advice);
  }
  const auto changed = changed_parts(*recorded, *here);
  std::string list;
  for (const ModelPart& part : changed) list += (list.empty() ? "" : ", ") + std::string(part.name);
  // Tensors before what is around them: with others there is nothing to compare.
  return cannot(verdict, changed.empty() ? "weights_differ" : changed.front().reason,
                "changed since " + verdict.model + " was recorded: " +
                    (list.empty() ? "which tokens end an answer" : list) + advice);
}

/// What is known of the machine that recorded.
void compare_environment(audit::RecordSource& reader, const Json& request, const ReplayWith& with,
                         Verdict& verdict) {
  const auto index = request.find("environment");
  if (index == request.end() || !index->is_number_unsigned()) return;
  const RecordedEnvironment* found = with.environments.find(reader, index->get<std::uint64_t>());
  if (found == nullptr) return;
  verdict.environment = found->index;
  verdict.environment_differs = found->differs;
}

/// What a verdict says of its record, whatever comes of it.
void describe_request(audit::RecordSource& reader, const audit::StoredLeaf& request,
                      const ReplayWith& with, Verdict& verdict) {
  verdict.method = with.method == Method::score ? "score" : "decode";
  verdict.request_index = request.index;
  verdict.model = text_at(request.json, {"model", "requested"});
  verdict.time_us = time_at(request.json);
  compare_environment(reader, request.json, with, verdict);
}

/// Every choice against the engine. The worst verdict, with the tokens and margins of all.
Verdict compare_choices(local_engine::Engine& engine, const std::vector<RecordedChoice>& choices,
                        const ReplayWith& with, const Verdict& verdict) {
  const std::int64_t start_us = with.clock.steady_us();
  Verdict worst = verdict;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Verdict one = verdict;
    one.choice = i;
    one.tokens = worst.tokens;
    one.margins = worst.margins;
    one.fingerprint = worst.fingerprint;
    compare_choice(engine, choices[i], with.method, one);
    const std::size_t tokens_so_far = one.tokens;
    const MarginCounts margins_so_far = one.margins;
    const auto fingerprint_so_far = one.fingerprint;
    if (i == 0 || is_worse(one, worst)) worst = one;
    worst.tokens = tokens_so_far;
    worst.margins = margins_so_far;
    worst.fingerprint = fingerprint_so_far;
  }
  worst.choices = choices.size();
  worst.seconds = static_cast<double>(with.clock.steady_us() - start_us) / 1e6;
  return worst;
}

}  // namespace

Result<Verdict> replay_record(audit::RecordSource& reader, const Uuid& id, const ReplayWith& with) {
  // 1. The record's own leaves.
  auto leaves = read_leaves(reader, id);
  Verdict verdict;
  verdict.record = id;
  if (!leaves && leaves.error().code == Errc::erased) {
    return was_pruned(verdict, leaves.error().message());
  }
  if (!leaves) return leaves.error();
  describe_request(reader, leaves->request, with, verdict);
  if (!leaves->response) return cannot(verdict, "open", "the exchange has no end yet");
  verdict.response_index = leaves->response->index;
  const std::string status = text_at(leaves->response->json, {"status"});

  // 2. A hit was computed by its origin; the hit's own answer is compared with the origin's text below.
  RecordedLeaves source = *leaves;
  if (status == "cache_hit") {
    const auto origin = parse_uuid(text_at(leaves->response->json, {"origin"}));
    if (!origin) return cannot(verdict, "malformed_record", "the hit names no origin");
    auto found = read_leaves(reader, *origin);
    if (!found || !found->response) return without_origin(verdict, found);
    verdict.origin = *origin;
    source = std::move(*found);
  } else if (status != "complete") {
    return cannot(verdict, "status", "the exchange ended as " + status);
  }

  const std::string lack = what_was_not_captured(*leaves, source);
  if (!lack.empty()) return cannot(verdict, "not_captured", lack);

  // 3. What a remote endpoint answered is measured if the operator vouches for its weights.
  const Json& response = source.response->json;
  const std::string weights = text_at(response, {"engine", "weights_sha256"});
  if (weights.empty() && text_at(source.request.json, {"route", "upstream"}) == "local") {
    return cannot(verdict, "no_output",
                  "the answer is not a model's: a list of models, or the like");
  }
  if (weights.empty()) return replay_foreign(reader, *leaves, source, with, std::move(verdict));
  const std::string profile = text_at(response, {"engine", "numerics_profile"});

  // 4. The recorded tokens, opened and checked against their commitment.
  const auto content = reader.content(source.response->index, "response.tokens");
  if (!content) {
    if (verdict_of_content_error(content.error(), verdict)) return verdict;
    return content.error();
  }
  auto tokens = parse_tokens(content->bytes);
  if (!tokens) return cannot(verdict, "malformed_record", tokens.error().message());
  std::vector<RecordedChoice>& choices = tokens->choices;
  const bool continues = served_api(source.request.json) == gateway::Api::openai_completions;
  for (RecordedChoice& choice : choices) choice.request.continues_text = continues;
  take_digests_of_leaf(response, choices);

  // 5. The same weights, and the same profile.
  const auto engine = with.engines.with_weights(weights, verdict.model, profile);
  if (!engine) {
    if (with.engines.failed()) return engine.error();
    const bool changed = with.engines.name_has_other_weights(verdict.model, weights);
    if (changed) {
      const auto measured = measure_other_weights(reader, *source.response, with, choices, verdict);
      if (!measured) return measured.error();
    }
    if (changed) return other_model(reader, weights, *source.response, with, verdict);
    return cannot(verdict, reason_without_engine(engine.error()), engine.error().message());
  }
  verdict.engine = describe(**engine);
  verdict.other_weights_named = with.engines.vouched_otherwise(verdict.model, weights);
  if (profile != (*engine)->profile()) {
    return cannot(verdict, "profile_differs",
                  "recorded under " + profile + ", replayed under " + (*engine)->profile());
  }

  const auto fingerprint =
      read_fingerprint(reader, *source.response, (*engine)->hidden_size(), choices);
  if (!fingerprint) {
    if (verdict_of_content_error(fingerprint.error(), verdict)) return verdict;
    return fingerprint.error();
  }

  // 6. Every choice against the engine; the worst stands for the record.
  Verdict worst = compare_choices(**engine, choices, with, verdict);
  explain(reader, *source.response, with, **engine, choices, worst);
  if (worst.kind != VerdictKind::bitwise && worst.kind != VerdictKind::token_exact) return worst;

  // 7. The tokens must belong to the bytes: the request as sent gives this prompt, and the answer as sent is the
  //    text of these tokens. Else a true computation would vouch for another conversation.
  const auto bound = check_binding(reader, *leaves, source, **engine, *tokens);
  if (!bound) {
    if (verdict_of_content_error(bound.error(), worst)) return worst;
    return bound.error();
  }
  if (!bound->reason.empty()) say_unbound(*bound, source.response->json, worst);
  return worst;
}

Result<void> check_engines_of(audit::RecordSource& reader, const std::vector<Uuid>& ids,
                              Engines& engines) {
  std::set<std::tuple<std::string, std::string, std::string>> known;
  for (const Uuid& id : ids) {
    const auto asked = read_leaves(reader, id);
    const auto computed = asked ? computed_by(reader, *asked) : std::nullopt;
    if (!computed) continue;
    const std::string name = text_at(asked->request.json, {"model", "requested"});
    const std::string weights = text_at(computed->response->json, {"engine", "weights_sha256"});
    const std::string profile = text_at(computed->response->json, {"engine", "numerics_profile"});
    if (!known.emplace(name, weights, profile).second) continue;
    const auto engine = engines.judging(weights, name, profile);
    if (!engine && engines.failed()) return engine.error();
  }
  return {};
}

}  // namespace verbatim::replay
