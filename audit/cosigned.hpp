#pragma once
// Checkpoints that witnesses cosigned, kept beside the log: DIR/cosigned/<size>, each the log's signed note with their
// lines after its own. What others said of the log needs no place in it, and no writer.

#include "audit/checkpoint.hpp"
#include "audit/policy.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace verbatim::audit {

/// Adds the lines by which `witness` cosigned `note` to what is kept for it: durable when this returns. `tampered` if
/// `lines` hold none by this key that is valid; others are dropped.
[[nodiscard]] Result<void> keep_cosignature(const std::filesystem::path& data_dir,
                                            const std::string& note, const VerifierKey& witness,
                                            std::string_view lines);

/// Keeps a cosigned checkpoint of this size as it is, over what was kept for it.
[[nodiscard]] Result<void> keep_cosigned(const std::filesystem::path& data_dir, std::uint64_t size,
                                         const std::string& note);

/// What is kept, by size. Files of other names, and those that hold no note, are passed over: they vouch for nothing.
[[nodiscard]] std::map<std::uint64_t, std::string> cosigned_checkpoints(
    const std::filesystem::path& data_dir);

/// A checkpoint of the log with the cosignatures kept for it.
[[nodiscard]] std::string with_cosignatures(const std::filesystem::path& data_dir,
                                            const std::string& note);

/// Consistency proof between two sizes of the log. `invalid_input` unless 0 < first <= second <= the log's.
[[nodiscard]] Result<std::vector<Digest>> consistency_proof(const std::filesystem::path& data_dir,
                                                            std::uint64_t first,
                                                            std::uint64_t second);

}  // namespace verbatim::audit
