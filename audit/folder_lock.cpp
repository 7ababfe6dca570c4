#include "audit/folder_lock.hpp"

#include "schema/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace verbatim::audit {

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const auto path = folder / "lock";
  FolderLock lock;
  lock.file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.file_.ok()) {
    return Error{Errc::storage_failed, "cannot open the lock file: " + errno_text(), path.string(),
                 "the log's folder must be writable"};
  }
  if (::flock(lock.file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return Error{Errc::storage_failed, "cannot lock the folder: " + errno_text(), path.string(),
                   ""};
    }
    const auto holder = read_file(path, 64);
    std::string who = "another process holds the log";
    if (holder && !holder->empty()) who += ", " + holder->substr(0, holder->find('\n'));
    return Error{Errc::unavailable, who, folder.string(), "stop it, or use another --data"};
  }
  const std::string pid = "process " + std::to_string(::getpid()) + "\n";
  // Only for the message above: a failure does no harm.
  if (::ftruncate(lock.file_.get(), 0) != 0 ||
      ::pwrite(lock.file_.get(), pid.data(), pid.size(), 0) < 0)
    return lock;
  return lock;
}

}  // namespace verbatim::audit
