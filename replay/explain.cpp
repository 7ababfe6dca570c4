#include "replay/explain.hpp"

namespace verbatim::replay {

namespace {

using local_engine::Engine;
using local_engine::LayerDetail;
using local_engine::LayerDigests;

/// What the engine computes for the recorded tokens.
Result<LayerDigests> digests_of(Engine& engine, const RecordedChoice& choice, LayerDetail detail) {
  auto request = choice.request;
  request.layer_detail = detail;
  auto result = engine.score(request, choice.output_ids);
  if (!result) return result.error();
  return std::move(*result->layer_digests);
}

/// Takes one choice's comparison. True when the choice speaks for the record: it differs, or cannot be compared.
bool take(const Result<local_engine::LayerComparison>& compared, std::size_t choice,
          const RecordedChoice& recorded, Explanation& explanation) {
  if (!compared) {
    explanation.problem = compared.error().what;
    explanation.found.reset();
    return true;
  }
  const std::size_t before = explanation.found ? explanation.found->positions : 0;
  explanation.found = *compared;
  if (!compared->first) explanation.found->positions += before;  // of all choices so far
  explanation.choice = choice;
  explanation.prompt_tokens = recorded.request.prompt_ids.size();
  return compared->first.has_value();
}

}  // namespace

Result<std::vector<std::optional<LayerDigests>>> parse_layers(std::string_view content,
                                                              std::size_t choices) {
  const auto malformed = [](const std::string& what) {
    return Error{Errc::invalid_input, what, "response.layers", ""};
  };
  const auto json = parse_json(content);
  if (!json) return malformed(json.error().what);
  if (!json->is_object() || json->value("v", Json()) != 1) return malformed("not of version 1");
  const auto list = json->find("choices");
  if (list == json->end() || !list->is_array() || list->size() != choices)
    return malformed("not as many choices as were recorded");
  std::vector<std::optional<LayerDigests>> all;
  for (const Json& each : *list) {
    all.emplace_back();
    if (each.is_null()) continue;
    auto digests = LayerDigests::from_json(each);
    if (!digests) return malformed(digests.error().what);
    all.back() = std::move(*digests);
  }
  return all;
}

Explanation explain_by_record(Engine& engine, const std::vector<RecordedChoice>& choices,
                              const std::vector<std::optional<LayerDigests>>& recorded) {
  Explanation explanation;
  explanation.against = "record";
  explanation.problem = "its answer was too long for the bytes that its digests may take";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!recorded[i]) continue;
    const auto own = digests_of(engine, choices[i], recorded[i]->detail());
    const auto compared = own ? local_engine::compare_layers(*recorded[i], *own)
                              : Result<local_engine::LayerComparison>(own.error());
    if (take(compared, i, choices[i], explanation)) break;
  }
  return explanation;
}

Explanation explain_by_engine(Engine& engine, Engine& other,
                              const std::vector<RecordedChoice>& choices) {
  Explanation explanation;
  explanation.against =
      other.backend() + ", weights " + other.fingerprint().weights_sha256.hex().substr(0, 16);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto own = digests_of(engine, choices[i], LayerDetail::operators);
    const auto theirs = own ? digests_of(other, choices[i], LayerDetail::operators)
                            : Result<LayerDigests>(own.error());
    const auto compared = theirs ? local_engine::compare_layers(*own, *theirs)
                                 : Result<local_engine::LayerComparison>(theirs.error());
    if (take(compared, i, choices[i], explanation)) break;
  }
  return explanation;
}

}  // namespace verbatim::replay
