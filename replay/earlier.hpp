#pragma once
// Verdicts that an earlier run has left in the log, so that a run can go on where one ended.

#include "audit/records.hpp"
#include "replay/engines.hpp"
#include "replay/verdict.hpp"

#include <map>

namespace verbatim::replay {

/// What a verdict must have been given by to be taken over: the same build and profile make the same bits, on any
/// backend, so a second computation can find nothing else.
struct RunIdentity {
  std::string method;
  std::string
      profile;  ///< for answers of remote endpoints: those of the local engine have their record's
  std::string build;
  std::string calibration_sha256;  ///< "" without one
};

/// The newest such verdict of each record. NOT_REPLAYABLE and what was given without an engine are not among them: that may
/// have changed. Errors as the reader gives them.
[[nodiscard]] Result<std::map<Uuid, Verdict>> earlier_verdicts(audit::RecordSource& reader,
                                                               const RunIdentity& run);

/// Would replay_record() say the same now? The engine that would judge the record has the same weights, and nothing of
/// what it judged was erased since. Any thread.
[[nodiscard]] bool still_holds(audit::RecordSource& reader, const Verdict& verdict,
                               Engines& engines);

}  // namespace verbatim::replay
