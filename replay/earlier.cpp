#include "replay/earlier.hpp"

namespace verbatim::replay {

namespace {

bool is_by(const Verdict& verdict, const RunIdentity& run) {
  const std::string calibration = verdict.tolerance ? verdict.tolerance->calibration_sha256 : "";
  return verdict.engine && verdict.engine->profile == run.profile &&
         verdict.engine->build == run.build && verdict.method == run.method &&
         (!verdict.claimed_weights || calibration == run.calibration_sha256);
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
    verdicts.insert_or_assign(id, std::move(*verdict));
  }
  return verdicts;
}

}  // namespace verbatim::replay
