#pragma once
// Replays records: the one place that decides which verdict a record gets.

#include "audit/reader.hpp"
#include "replay/compare.hpp"
#include "replay/engines.hpp"
#include "replay/verdict.hpp"

namespace verbatim::replay {

/// Replays the record `id` by the rules of docs/replay.md. Everything that can be wrong with a record is a
/// verdict; an error means that the log could not be read (`storage_failed`) or has no such record (`not_found`).
/// Changes nothing: the caller appends the verdict's leaf. The result does not depend on batches, threads or time.
[[nodiscard]] Result<Verdict> replay_record(audit::LogReader& reader, Engines& engines,
                                            const Uuid& id, Method method, const Clock& clock);

}  // namespace verbatim::replay
