#pragma once
// Verdicts that an earlier run has left in the log, so that a run can go on where one ended.

#include "audit/records.hpp"
#include "replay/verdict.hpp"

#include <map>

namespace verbatim::replay {

/// What a verdict must have been given by to be taken over: the same build and profile make the same bits, on any
/// backend, so a second computation can find nothing else.
struct RunIdentity {
  std::string method, profile, build;
  std::string calibration_sha256;  ///< "" without one
};

/// The newest such verdict of each record. Verdicts given without an engine (weights missing, exchange still open) are
/// not among them: that may have changed. Errors as the reader gives them.
[[nodiscard]] Result<std::map<Uuid, Verdict>> earlier_verdicts(audit::RecordSource& reader,
                                                               const RunIdentity& run);

}  // namespace verbatim::replay
