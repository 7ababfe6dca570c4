#pragma once
// The exclusive lock on a data folder: flock() on its file `lock`, which names the holder's process id.

#include "schema/descriptor.hpp"
#include "schema/error.hpp"

#include <filesystem>

namespace verbatim::audit {

/// Held until destruction, or the end of the process however it comes. Not inherited through exec.
class FolderLock {
 public:
  FolderLock() = default;
  /// `unavailable` if another process, or another object in this one, holds it; `storage_failed`.
  [[nodiscard]] static Result<FolderLock> take(const std::filesystem::path& folder);

 private:
  Descriptor file_;
};

}  // namespace verbatim::audit
