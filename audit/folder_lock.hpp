#pragma once
// The exclusive lock on a data folder: flock() on its file `lock`, which names the holder's process id.

#include "schema/error.hpp"

#include <filesystem>
#include <utility>

namespace verbatim::audit {

/// Held until destruction, or the end of the process however it comes. Not inherited through exec.
class FolderLock {
 public:
  FolderLock() = default;
  /// `unavailable` if another process, or another object in this one, holds it; `storage_failed`.
  [[nodiscard]] static Result<FolderLock> take(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  int fd_ = -1;
};

}  // namespace verbatim::audit
