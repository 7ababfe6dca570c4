#pragma once
// The mark that a backup carries (its file `backup`), so that a log which goes on from one says so: the first writer that
// opens the folder appends a `restored` leaf (schema/leaf.md) and takes the mark away.

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace verbatim::audit {

inline constexpr const char* kBackupMarkName = "backup";

struct BackupMark {
  std::uint64_t size = 0;  ///< leaves of the copy
  Digest root;
  std::int64_t made_us = 0;
};

[[nodiscard]] Result<void> write_backup_mark(const std::filesystem::path& folder,
                                             const BackupMark& mark);

/// The members of a `restored` leaf, if the folder carries a mark. Of one that cannot be read there are none: that the log
/// goes on from a backup is said all the same.
[[nodiscard]] std::optional<Json> restored_fields(const std::filesystem::path& folder);

/// Once this returns, the mark stays away. That there is none is no error. `storage_failed`.
[[nodiscard]] Result<void> remove_backup_mark(const std::filesystem::path& folder);

/// For the operator, in one line, of such members.
[[nodiscard]] std::string restored_text(const Json& fields);

}  // namespace verbatim::audit
