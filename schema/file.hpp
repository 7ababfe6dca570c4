#pragma once
// Whole files, read and written safely.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace verbatim {

/// Reads a regular file of at most `bytes_max` bytes. `not_found`, `invalid_input` (too large, not a
/// regular file) or `storage_failed`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::uint64_t bytes_max);

/// Replaces `path` by a file with these bytes and mode. Once this returns, the new file survives power
/// loss; on any error the old one is as it was. Written to a temporary name, synced, renamed, and the
/// folder synced.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view bytes,
                                      unsigned mode = 0644);

/// What write_file() would meet at once: no folder there, no permission, something else than a regular
/// file in its place. To be asked before long work whose result goes to `path`.
[[nodiscard]] Result<void> check_can_write(const std::filesystem::path& path);

/// "No space left on device" and the like for the current errno, without locale.
[[nodiscard]] std::string errno_text();

}  // namespace verbatim
