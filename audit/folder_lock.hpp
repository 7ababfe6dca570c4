#pragma once
// The exclusive lock on a data folder: flock() on the folder itself. Its file `lock` names the holder's process id,
// for messages; deleting it changes nothing.

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
  /// Gives the lock back, and removes the folder that was made for it, unless there is more in it than the lock's file.
  void give_up(const std::filesystem::path& folder);

 private:
  Descriptor folder_;
};

}  // namespace verbatim::audit
