#pragma once
// Digests of files and of parts of files, several at a time.

#include "model_signing/statement.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::model_signing {

/// Called with the bytes read so far and those there are in all; from any thread, but never from two at once.
using HashProgress = std::function<void(std::uint64_t done, std::uint64_t of)>;

struct FilePart {
  std::filesystem::path path;
  bool follow_link = false;
  std::uint64_t start = 0;
  std::uint64_t end = 0;        ///< the one after the last byte
  std::uint64_t file_size = 0;  ///< as size_of() said
};

/// The size of a file. `not_found`, `invalid_input` (no regular file), `storage_failed`.
[[nodiscard]] Result<std::uint64_t> size_of(const std::filesystem::path& path, bool follow_link);

/// In the order of `parts`, in lower-case hexadecimal. The bytes are read, whatever is known of the file from before.
/// Errors: the first part's, as size_of(), and `storage_failed` for a file that was changed since its size was asked.
[[nodiscard]] Result<std::vector<std::string>> hash_parts(const std::vector<FilePart>& parts,
                                                          Hash hash, const HashProgress& progress);

}  // namespace verbatim::model_signing
