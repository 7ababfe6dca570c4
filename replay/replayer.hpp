#pragma once
// Replays records: the one place that decides which verdict a record gets.

#include "audit/records.hpp"
#include "replay/calibration.hpp"
#include "replay/compare.hpp"
#include "replay/engines.hpp"
#include "replay/environments.hpp"
#include "replay/explain.hpp"
#include "replay/recorded_models.hpp"
#include "replay/verdict.hpp"

namespace verbatim::replay {

/// What a run replays with. All borrowed, and shared by the threads that replay.
struct ReplayWith {
  Engines& engines;
  Environments& environments;
  RecordedModels& models;
  const Calibration* calibration;  ///< null: no answer of a foreign engine is WITHIN_MARGIN
  Method method;
  const Clock& clock;
  /// Explain what diverged, and records of weights that changed, where the record keeps digests of its layers.
  bool explain = false;
  /// Explain every answer of the local engine by this too. Null: none.
  const Counterpart* against = nullptr;
};

/// Replays the record `id` by the rules of docs/replay.md. Everything that can be wrong with a record is a
/// verdict; an error means that the log could not be read (`storage_failed`), has no such record (`not_found`), or that
/// the engine failed its check (`out_of_range`): then no verdict may be given at all.
/// Changes nothing: the caller appends the verdict's leaf. The result does not depend on batches, threads or time.
/// Any thread may call if `reader` may be read by any (audit::SharedRecords).
[[nodiscard]] Result<Verdict> replay_record(audit::RecordSource& reader, const Uuid& id,
                                            const ReplayWith& with);

/// Loads and checks the engines that replay_record() will need for these records, so that one that fails its check is
/// known before a verdict is given. An error only then; whatever else is wrong is for the records' verdicts to say.
[[nodiscard]] Result<void> check_engines_of(audit::RecordSource& reader,
                                            const std::vector<Uuid>& ids, Engines& engines);

}  // namespace verbatim::replay
