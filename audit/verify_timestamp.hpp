#pragma once
// That each time stamp in a log is of a checkpoint that the log signed, of the tree that it has; and who made it.

#include "audit/findings.hpp"
#include "audit/timestamp.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace verbatim::audit {

/// A stamp for a report.
[[nodiscard]] TimestampFinding finding_of(std::uint64_t index, const Timestamp& timestamp);

/// Told of all `timestamp` leaves before the tree is read, for their checkpoints are compared with it as it grows.
class TimestampCheck {
 public:
  /// `trust`: absent where nobody said whom to trust; stamps are then counted and never called trusted.
  explicit TimestampCheck(std::optional<TimestampTrust> trust) : trust_(std::move(trust)) {}

  /// Problems: `timestamp` (token, note and members do not fit together, or the log did not sign the note),
  /// `timestamp_untrusted`, and later `timestamp_fork` by `heads`.
  void announce(std::uint64_t index, const Json& leaf, const KeyChain& keys, HeadCheck& heads,
                Findings& findings);
  /// A `timestamp` leaf was met in the tree. Problem: `timestamp`, if it was not announced.
  void met(std::uint64_t index, Findings& findings) const;
  /// Problem: `timestamp_missing`, if there is none by those who are trusted.
  void finish(Findings& findings) const;

  [[nodiscard]] const TimestampSummary& summary() const { return summary_; }

 private:
  std::optional<TimestampTrust> trust_;
  std::set<std::uint64_t> announced_;
  TimestampSummary summary_;
};

/// The authorities of VerifyOptions::tsa_ca; nothing for "". `invalid_input`.
[[nodiscard]] Result<std::optional<TimestampTrust>> trust_of(const VerifyOptions& options);

}  // namespace verbatim::audit
