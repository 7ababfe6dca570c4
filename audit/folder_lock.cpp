#include "audit/folder_lock.hpp"

#include "schema/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace verbatim::audit {

namespace {
constexpr const char* kNote = "lock";
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const auto note = folder / kNote;
  FolderLock lock;
  lock.folder_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.folder_.ok()) {
    return Error{Errc::storage_failed, "cannot open the folder: " + errno_text(), folder.string(),
                 ""};
  }
  if (::flock(lock.folder_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return Error{Errc::storage_failed, "cannot lock the folder: " + errno_text(), folder.string(),
                   ""};
    }
    const auto holder = read_file(note, 64);
    std::string who = "another process holds the log";
    if (holder && !holder->empty()) who += ", " + holder->substr(0, holder->find('\n'));
    return Error{Errc::unavailable, who, folder.string(), "stop it, or use another --data"};
  }
  const Descriptor file(::open(note.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) {
    return Error{Errc::storage_failed, "cannot open the lock file: " + errno_text(), note.string(),
                 "the log's folder must be writable"};
  }
  const std::string pid = "process " + std::to_string(::getpid()) + "\n";
  // Only for the message above: a failure does no harm.
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
    return lock;
  }
  return lock;
}

void FolderLock::give_up(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove(folder / kNote, ignored);
  std::filesystem::remove(folder, ignored);  // as rmdir(2): only if empty
  folder_ = Descriptor();
}

}  // namespace verbatim::audit
