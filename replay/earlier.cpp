#include "replay/earlier.hpp"

#include "audit/dsse.hpp"
#include "replay/kept_activations.hpp"
#include "replay/statement.hpp"

#include <algorithm>
#include <set>

namespace verbatim::replay {

namespace {

bool is_by(const Verdict& verdict, const RunIdentity& run) {
  const std::string calibration = verdict.tolerance ? verdict.tolerance->calibration_sha256 : "";
  // What could not be judged is looked at again: it may have changed, and it costs nothing.
  if (verdict.kind == VerdictKind::not_replayable) return false;
  if (verdict.kind != VerdictKind::bitwise && !leaf_tells_detail(verdict)) return false;
  // An answer of the local engine is computed again under the profile that its record names, whatever the run's.
  return verdict.engine && verdict.engine->build == run.build && verdict.method == run.method &&
         (!verdict.claimed_weights ||
          (verdict.engine->profile == run.profile && calibration == run.calibration_sha256));
}

bool is_without_answer(const Verdict& verdict) {
  return verdict.kind == VerdictKind::not_replayable || verdict.kind == VerdictKind::erased ||
         verdict.kind == VerdictKind::pruned;
}

Json what_is_said(const Verdict& verdict) {
  Json fields = verdict_fields(verdict);
  if (verdict.engine) return fields;
  for (const char* circumstance : {"method", "environment", "environment_differs"})
    fields.erase(circumstance);
  return fields;
}

/// Is this the statement of what the leaf says? Read back and stated again, it must be the same bytes: so nothing in it
/// can be out of bounds, or point elsewhere. Members are compared first: what nobody stated may hold what canonical JSON
/// refuses.
bool is_statement_of(audit::RecordSource& reader, const Verdict& verdict, std::string_view text) {
  const auto json = parse_json(text);
  if (!json || !json->is_object()) return false;
  const auto predicate = json->find("predicate");
  if (predicate == json->end() || !predicate->is_object() ||
      predicate->value("verbatim", Json()) != verdict_fields(verdict)) {
    return false;
  }
  const auto stated = statement(reader, verdict);
  return stated && *stated == text;
}

/// Has one of the keys that may sign the tree with this leaf in it signed what the leaf says?
bool is_signed(audit::RecordSource& reader, const audit::KeyChain& keys, std::uint64_t index,
               const Verdict& verdict) {
  const auto content = reader.content(index, "statement");
  if (!content) return false;
  const std::vector<audit::VerifierKey> able = keys.at(index + 1);
  return std::any_of(able.begin(), able.end(), [&](const audit::VerifierKey& key) {
    const auto opened = audit::open_statement(content->bytes, key);
    return opened && is_statement_of(reader, verdict, *opened);
  });
}

/// The leaves that it speaks of are the record's own.
bool is_about(const RecordedLeaves& asked, const Verdict& verdict) {
  return asked.response && asked.request.index == verdict.request_index &&
         verdict.response_index == asked.response->index;
}

/// What an earlier run did not explain is computed again.
bool is_to_be_explained(const audit::StoredLeaf& response, const Verdict& verdict,
                        const ReplayWith& with) {
  if (with.against != nullptr) return true;
  const bool explained =
      std::any_of(verdict.explanations.begin(), verdict.explanations.end(),
                  [](const Json& each) { return text_at(each, {"against"}) == "record"; });
  return with.explain && !explained &&
         (verdict.kind == VerdictKind::diverged || keeps_layers(response));
}

}  // namespace

Result<Earlier> earlier_verdicts(audit::RecordSource& reader, const RunIdentity& run,
                                 const std::vector<Uuid>& records) {
  std::vector<Uuid> wanted = records;
  std::sort(wanted.begin(), wanted.end());
  const auto keys = reader.keys();
  if (!keys) return keys.error();
  audit::RecordFilter filter;
  filter.type = "replay_verdict";
  auto leaves = reader.list(filter);
  if (!leaves) return leaves.error();
  std::sort(leaves->begin(), leaves->end(),
            [](const auto& a, const auto& b) { return a.index > b.index; });
  Earlier earlier;
  std::set<Uuid> seen;
  for (const auto& each : *leaves) {
    const auto leaf = reader.leaf(each.index);
    if (!leaf) return leaf.error();
    const auto id = parse_uuid(text_at(leaf->json, {"record"}));
    if (!id || !std::binary_search(wanted.begin(), wanted.end(), *id) ||
        earlier.verdicts.contains(*id)) {
      continue;
    }
    auto verdict = verdict_of_leaf(leaf->json);
    if (verdict && seen.insert(*id).second && is_without_answer(*verdict) &&
        is_signed(reader, *keys, each.index, *verdict)) {
      verdict->leaf = each.index;
      earlier.without_answer.emplace(*id, *verdict);
    }
    if (verdict && !is_by(*verdict, run)) continue;
    if (!verdict || !is_signed(reader, *keys, each.index, *verdict)) {
      ++earlier.passed_over;
      continue;
    }
    verdict->leaf = each.index;
    earlier.verdicts.emplace(*id, std::move(*verdict));
  }
  return earlier;
}

bool is_said_already(const Earlier& earlier, const Verdict& verdict) {
  const auto before = earlier.without_answer.find(verdict.record);
  return before != earlier.without_answer.end() && is_without_answer(verdict) &&
         what_is_said(before->second) == what_is_said(verdict);
}

std::optional<Verdict> taken_over(audit::RecordSource& reader, Verdict verdict,
                                  const ReplayWith& with) {
  const auto asked = read_leaves(reader, verdict.record);
  if (!asked || !is_about(*asked, verdict) || !verdict.engine) return std::nullopt;
  const auto computed = computed_by(reader, *asked);
  if (!computed || is_to_be_explained(*computed->response, verdict, with)) return std::nullopt;
  const std::string name = text_at(asked->request.json, {"model", "requested"});
  const std::string weights = text_at(computed->response->json, {"engine", "weights_sha256"});
  // Only a remote endpoint's answer is measured by weights that somebody claims, or within a margin.
  const bool remote = weights.empty();
  if (verdict.claimed_weights != remote ||
      (verdict.kind == VerdictKind::within_margin && !verdict.tolerance)) {
    return std::nullopt;
  }
  const auto engine = with.engines.judging(weights, name, verdict.engine->profile);
  if (!engine || (*engine)->fingerprint().weights_sha256.hex() != verdict.engine->weights_sha256)
    return std::nullopt;
  const auto erased = [&](const audit::StoredLeaf& leaf, const char* field) {
    const auto content = reader.content(leaf.index, field);
    return !content && content.error().code == Errc::erased;
  };
  if (erased(asked->request, "request.body") || erased(*asked->response, "response.body") ||
      erased(*computed->response, "response.tokens")) {
    return std::nullopt;
  }
  verdict.model = name;
  verdict.time_us = time_at(asked->request.json);
  verdict.other_weights_named =
      !remote && with.engines.vouched_otherwise(name, verdict.engine->weights_sha256);
  name_tokens(**engine, verdict);
  if (verdict.environment) (void)with.environments.find(reader, *verdict.environment);
  return verdict;
}

}  // namespace verbatim::replay
