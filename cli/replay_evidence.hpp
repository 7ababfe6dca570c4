#pragma once
// Where the records of a replay come from, and where its verdicts go: a log, or an auditor's bundle.

#include "audit/records.hpp"
#include "audit/verify.hpp"
#include "replay/verdict.hpp"
#include "schema/clock.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace verbatim::cli {

/// One thread, but for records(), which any thread may read. Errors as those of the log's appender, or of writing a file.
class ReplayEvidence {
 public:
  virtual ~ReplayEvidence() = default;
  [[nodiscard]] virtual audit::RecordSource& records() = 0;
  /// Keeps a verdict. The index of its leaf, if it becomes one.
  [[nodiscard]] virtual Result<std::optional<std::uint64_t>> give(
      const replay::Verdict& verdict) = 0;
  /// Called before a record's text goes into a report.
  [[nodiscard]] virtual Result<void> text_is_shown(const Uuid& record) = 0;
  /// What verification said of the bundle; null for a log.
  [[nodiscard]] virtual const audit::VerifyReport* verified() const = 0;
};

/// The log in a data folder. Each verdict becomes a leaf with a statement that the log's key signs; each text that is
/// shown is an `access` leaf first.
[[nodiscard]] Result<std::unique_ptr<ReplayEvidence>> log_evidence(
    const std::filesystem::path& data, const Clock& clock);

/// A bundle, which is verified first: `tampered` if it is not VALID. Nothing is written into it or into a log. With
/// `statements`, a folder, each verdict is `<record>.json` there: the same statement as the log would have, canonical
/// JSON, signed by nobody.
[[nodiscard]] Result<std::unique_ptr<ReplayEvidence>> bundle_evidence(
    const std::filesystem::path& bundle, const audit::VerifyOptions& options,
    const std::filesystem::path& statements);

/// True if a file there would lie in that folder: what is written into a bundle makes it invalid.
[[nodiscard]] bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace verbatim::cli
