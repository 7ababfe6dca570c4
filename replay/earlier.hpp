#pragma once
// Verdicts that an earlier run has left in the log, so that a run can go on where one ended.

#include "audit/records.hpp"
#include "replay/replayer.hpp"

#include <map>
#include <optional>
#include <vector>

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

/// What a log has of earlier runs.
struct Earlier {
  std::map<Uuid, Verdict> verdicts;
  /// The newest verdict of a record, where that says why there is nothing to compare: NOT_REPLAYABLE, ERASED or PRUNED. Such
  /// a record is judged again, since its weights may be there by now.
  std::map<Uuid, Verdict> without_answer;
  /// Leaves that could have been taken over, if the log's key had signed what they say.
  std::size_t passed_over = 0;
};

/// The newest such verdict of each of these records. Whoever may append to the log may append a `replay_verdict` leaf, so
/// a leaf counts only with its content `statement`, signed by a key that may sign the tree that holds it, and saying what
/// the leaf says and nothing else. What was given without an engine, and what the leaf does not tell whole, is not taken
/// over either. Errors as the reader gives them; what is wrong with a leaf is none.
[[nodiscard]] Result<Earlier> earlier_verdicts(audit::RecordSource& reader, const RunIdentity& run,
                                               const std::vector<Uuid>& records);

/// Whether a verdict says of its record what the newest leaf in the log says of it, where neither found anything to compare:
/// then another leaf would tell nobody anything. Of verdicts that no engine was asked for, method and machine do not count.
[[nodiscard]] bool is_said_already(const Earlier& earlier, const Verdict& verdict);

/// The earlier verdict with what its leaf does not hold, from record and engine, if replay_record() would say the same
/// now: the engine that would judge the record has the same weights, nothing of what it judged was erased since, and what
/// is to be explained was. Nothing if not. Any thread.
[[nodiscard]] std::optional<Verdict> taken_over(audit::RecordSource& reader, Verdict verdict,
                                                const ReplayWith& with);

}  // namespace verbatim::replay
