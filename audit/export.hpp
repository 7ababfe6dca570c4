#pragma once
// Evidence for others: a bundle that verifies with a public key alone. Format: schema/evidence.md.

#include "audit/reader.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::audit {

enum class ContentChoice {
  all,       ///< every content of the chosen records
  none,      ///< metadata and proofs only
  selected,  ///< those fields of the chosen records that `fields` names
};

struct ExportOptions {
  std::filesystem::path
      out;              ///< a folder, or a zip file if it ends in ".zip"; nothing may be there
  RecordFilter filter;  ///< which records' contents, unless `ids` says it
  std::vector<Uuid> ids;
  ContentChoice contents = ContentChoice::all;
  std::vector<std::string> fields;  ///< for `selected`: "request.body", ...
  /// A checkpoint of this log, which the bundle is to end with; "" is the newest. An older one must be signed by a key
  /// that signs still.
  std::string note;
  /// More files to put in and sign for, as (name, bytes): verify.py, a report.
  std::vector<std::pair<std::string, std::string>> extra_files;
};

struct ExportSummary {
  std::uint64_t size = 0;      ///< leaves in the tree
  std::uint64_t records = 0;   ///< chosen exchanges
  std::uint64_t contents = 0;  ///< disclosed
  std::uint64_t erased = 0;    ///< chosen, but erased
  std::uint64_t pruned = 0;    ///< leaves chosen, but pruned
  /// Of ExportOptions::fields, those that no chosen leaf has.
  std::vector<std::string> fields_missing;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  ///< before compression
};

/// Writes the whole tree (every leaf and tile under the newest checkpoint) and the chosen contents, then a manifest,
/// signed by the log's key, which is read from the data folder. Works on a live log; memory does not grow with it,
/// except for the list of files.
/// Errors: `invalid_input` (something is at `out`), `not_found` (a record, or the key), `tampered`, `storage_failed`.
/// On an error a folder may be left half full; it has no manifest then. A zip file does not appear.
[[nodiscard]] Result<ExportSummary> export_evidence(LogReader& reader,
                                                    const ExportOptions& options);

}  // namespace verbatim::audit
