#include "replay/kept_activations.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

/// Does the leaf commit to such a content?
bool keeps(const audit::StoredLeaf& leaf, std::string_view field) {
  const Json contents = leaf.json.value("contents", Json::array());
  return std::any_of(contents.begin(), contents.end(),
                     [&](const Json& each) { return text_at(each, {"field"}) == field; });
}

Explanation cannot_say(std::string problem) {
  Explanation explanation;
  explanation.against = "record";
  explanation.problem = std::move(problem);
  return explanation;
}

Explanation nothing_kept() {
  return cannot_say("it keeps no digests of its layers; name another engine with --against");
}

/// By the digests that the record keeps of its layers.
Explanation explain_by_kept(audit::RecordSource& reader, const audit::StoredLeaf& response,
                            local_engine::Engine& engine,
                            const std::vector<RecordedChoice>& choices) {
  if (!keeps_layers(response)) return nothing_kept();
  const auto content = reader.content(response.index, "response.layers");
  const auto layers =
      content ? parse_layers(content->bytes, choices.size())
              : Result<std::vector<std::optional<local_engine::LayerDigests>>>(content.error());
  if (layers) return explain_by_record(engine, choices, *layers);
  return cannot_say(layers.error().what);
}

/// A fingerprint that the leaf commits to or says was kept, and that read_fingerprint() was not given.
void note_what_is_not_disclosed(const audit::StoredLeaf& response,
                                const std::vector<RecordedChoice>& choices, Verdict& verdict) {
  const bool read = std::any_of(choices.begin(), choices.end(), [](const RecordedChoice& choice) {
    return choice.fingerprint.has_value();
  });
  const Json engine = response.json.value("engine", Json::object());
  const bool said = engine.is_object() && engine.contains("fingerprint");
  if (!read && (said || keeps(response, "response.fingerprint")))
    verdict.not_looked_at.emplace_back("response.fingerprint");
}

}  // namespace

bool keeps_layers(const audit::StoredLeaf& response) { return keeps(response, "response.layers"); }

Result<void> read_fingerprint(audit::RecordSource& reader, const audit::StoredLeaf& response,
                              std::size_t hidden, std::vector<RecordedChoice>& choices) {
  if (!keeps(response, "response.fingerprint")) return {};
  const auto content = reader.content(response.index, "response.fingerprint");
  // A bundle may disclose the tokens without it: they and the digest of the logits decide then.
  if (!content && content.error().code == Errc::unavailable) return {};
  if (!content) return content.error();
  Bytes left = as_bytes(content->bytes);
  for (RecordedChoice& choice : choices) {
    const std::size_t tokens = choice.output_ids.size();
    const Bytes part =
        left.first(std::min(local_engine::fingerprint_bytes(tokens, hidden), left.size()));
    auto chunks = local_engine::parse_fingerprint(part, tokens, hidden);
    if (!chunks) return chunks.error();
    choice.fingerprint = std::move(*chunks);
    left = left.subspan(part.size());
  }
  if (left.empty()) return {};
  return Error{Errc::invalid_input, "it is longer than that of its answer",
               "activation fingerprint", ""};
}

void explain(audit::RecordSource& reader, const audit::StoredLeaf& response, const ReplayWith& with,
             local_engine::Engine& engine, const std::vector<RecordedChoice>& choices,
             Verdict& verdict) {
  note_what_is_not_disclosed(response, choices, verdict);
  const bool diverged = verdict.kind == VerdictKind::diverged;
  if (with.explain && (keeps_layers(response) || (diverged && with.against == nullptr))) {
    Explanation by_kept = explain_by_kept(reader, response, engine, choices);
    by_kept.answer_agrees =
        verdict.kind == VerdictKind::bitwise || verdict.kind == VerdictKind::token_exact;
    verdict.explanations.push_back(explanation_json(by_kept));
  }
  if (with.against == nullptr) return;
  Explanation by_other;
  const auto other =
      with.engines.counterpart(with.against->path, with.against->backend,
                               engine.fingerprint().weights_sha256.hex(), engine.profile());
  if (other) {
    by_other = explain_by_engine(engine, **other, choices);
  } else {
    by_other.against = "none";
    by_other.problem = other.error().what;
  }
  verdict.explanations.push_back(explanation_json(by_other));
}

Result<void> measure_other_weights(audit::RecordSource& reader, const audit::StoredLeaf& response,
                                   const ReplayWith& with, std::vector<RecordedChoice> choices,
                                   Verdict& verdict) {
  const bool explains = with.explain && keeps_layers(response);
  if (with.explain && !explains) verdict.explanations.push_back(explanation_json(nothing_kept()));
  if (!explains && !keeps(response, "response.fingerprint")) return {};
  const auto engine =
      with.engines.named(verdict.model, text_at(response.json, {"engine", "numerics_profile"}));
  if (!engine) {
    if (with.engines.failed()) return engine.error();
    return {};
  }
  verdict.engine = describe(**engine);
  if (read_fingerprint(reader, response, (*engine)->hidden_size(), choices)) {
    for (const RecordedChoice& choice : choices) {
      if (!choice.fingerprint) continue;
      auto request = choice.request;
      request.top_activations = true;
      const auto result = (*engine)->score(request, choice.output_ids);
      if (result) check_fingerprint(choice, *result, verdict);
    }
    note_what_is_not_disclosed(response, choices, verdict);
  }
  if (explains)
    verdict.explanations.push_back(
        explanation_json(explain_by_kept(reader, response, **engine, choices)));
  return {};
}

}  // namespace verbatim::replay
