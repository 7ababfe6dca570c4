#include "replay/earlier.hpp"

#include "replay/recorded.hpp"

namespace verbatim::replay {

namespace {

bool is_by(const Verdict& verdict, const RunIdentity& run) {
  const std::string calibration = verdict.tolerance ? verdict.tolerance->calibration_sha256 : "";
  // What could not be judged is looked at again: it may have changed, and it costs nothing.
  if (verdict.kind == VerdictKind::not_replayable) return false;
  // An answer of the local engine is computed again under the profile that its record names, whatever the run's.
  return verdict.engine && verdict.engine->build == run.build && verdict.method == run.method &&
         (!verdict.claimed_weights ||
          (verdict.engine->profile == run.profile && calibration == run.calibration_sha256));
}

}  // namespace

Result<std::map<Uuid, Verdict>> earlier_verdicts(audit::RecordSource& reader,
                                                 const RunIdentity& run) {
  audit::RecordFilter filter;
  filter.type = "replay_verdict";
  const auto records = reader.list(filter);
  if (!records) return records.error();
  std::map<Uuid, Verdict> verdicts;
  for (const auto& record : *records) {
    const auto leaf = reader.leaf(record.index);
    if (!leaf) return leaf.error();
    auto verdict = verdict_of_leaf(leaf->json);
    if (!verdict || !is_by(*verdict, run)) continue;
    const Uuid id = verdict->record;
    verdict->leaf = record.index;
    verdicts.insert_or_assign(id, std::move(*verdict));
  }
  return verdicts;
}

bool still_holds(audit::RecordSource& reader, const Verdict& verdict, Engines& engines) {
  const auto asked = read_leaves(reader, verdict.record);
  if (!asked || !asked->response || !verdict.engine) return false;
  const auto computed = computed_by(reader, *asked);
  if (!computed) return false;
  const std::string name = text_at(asked->request.json, {"model", "requested"});
  const std::string weights = text_at(computed->response->json, {"engine", "weights_sha256"});
  const auto engine = engines.judging(weights, name, verdict.engine->profile);
  if (!engine || (*engine)->fingerprint().weights_sha256.hex() != verdict.engine->weights_sha256)
    return false;
  const auto erased = [&](const audit::StoredLeaf& leaf, const char* field) {
    const auto content = reader.content(leaf.index, field);
    return !content && content.error().code == Errc::erased;
  };
  return !erased(asked->request, "request.body") && !erased(*asked->response, "response.body") &&
         !erased(*computed->response, "response.tokens");
}

}  // namespace verbatim::replay
