#pragma once
// Verification of a log or of an exported bundle, from its bytes alone. Changes nothing.

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::audit {

enum class Verdict { valid, valid_unwitnessed, tampered, truncated, forked, stale };

[[nodiscard]] std::string_view verdict_name(Verdict verdict);  ///< "VALID", ...

/// One fault, named finely.
struct Problem {
  std::string
      kind;  ///< "leaf_hash", "node_hash", "checkpoint_signature", "content_commitment", ...
  std::string detail;  ///< "leaf 17 does not hash to its tree node"
  std::optional<std::uint64_t> index;
};

struct VerifyOptions {
  std::string vkey;        ///< The key to trust; "" trusts the one the log names, and says so.
  std::string checkpoint;  ///< An older signed checkpoint that the holder kept; "" for none.
  std::string policy;      ///< Text of a tlog-policy file; "" for none.
  /// Certificates (PEM) of the time-stamping authorities to trust; with "" stamps are counted, and none is trusted.
  std::string tsa_ca;
  bool contents = true;  ///< Also open every content and check its commitment.
  std::function<void(std::uint64_t done, std::uint64_t of)> progress;
};

/// A time stamp of a checkpoint (RFC 3161).
struct TimestampFinding {
  std::uint64_t index = 0;  ///< of the leaf that holds it
  std::uint64_t size = 0;   ///< of the tree that was stamped: its leaves were there at that time
  std::int64_t time_us = 0;
  std::string tsa;       ///< what the signing certificate calls itself
  bool trusted = false;  ///< it leads to VerifyOptions::tsa_ca
};
struct TimestampSummary {
  std::uint64_t found = 0, trusted = 0;
  std::optional<TimestampFinding> newest;
};

struct VerifyReport {
  Verdict verdict = Verdict::valid;
  std::uint64_t size = 0;
  Digest root;
  std::string origin;
  std::string vkey;               ///< the newest key
  std::vector<std::string> keys;  ///< all that have signed this log, oldest first
  bool key_was_given = false;
  std::uint64_t checked_leaves = 0;
  std::uint64_t checked_contents = 0;
  std::uint64_t erased = 0;  ///< contents that are gone; of a bundle: that its leaves say are gone
  std::uint64_t not_disclosed =
      0;  ///< of a bundle: contents that leaves commit to, neither here nor erased
  std::string contents_unchecked;  ///< why contents could not be opened; "" if they were
  TimestampSummary timestamps;
  std::uint64_t minimum_index = 0;  ///< leaves below it were pruned, but for a few
  std::uint64_t pruned = 0;         ///< leaves that are gone: their hashes are in the tree
  bool prune_unfinished = false;    ///< some are still there: the log's next start takes them away
  std::vector<Problem> problems;    ///< At most 1,000; the verdict counts all.
};

/// Verifies the log in a data folder (live or not), or a bundle (folder or zip). An error means that nothing
/// could be said: `not_found`, `newer_version`, `invalid_input`, `storage_failed`. A bad log is a report.
[[nodiscard]] Result<VerifyReport> verify(const std::filesystem::path& path,
                                          const VerifyOptions& options);

struct ReceiptReport {
  Verdict verdict = Verdict::valid;
  std::string origin;
  std::uint64_t size = 0;  ///< of the tree that the receipt's checkpoint is of
  Digest root;
  std::uint64_t index = 0;                    ///< of the leaf
  std::string leaf;                           ///< its bytes: canonical JSON
  std::optional<TimestampFinding> timestamp;  ///< of its checkpoint
  std::vector<Problem> problems;
};

/// Verifies what `verbatim receipt` wrote: a C2SP tlog-proof with the leaf in its `extra` line, or the JSON object of
/// `receipt --json`. Reads no log. `options.vkey` must be given; `checkpoint`, `policy` and `tsa_ca` may
/// be. `invalid_input`: not a receipt, one without its leaf, or no key.
[[nodiscard]] Result<ReceiptReport> verify_receipt(std::string_view receipt,
                                                   const VerifyOptions& options);

}  // namespace verbatim::audit
