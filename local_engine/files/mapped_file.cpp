#include "local_engine/files/mapped_file.hpp"

#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace verbatim::local_engine {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes must not hang; it is refused below.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    const auto code = errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::storage_failed;
    return Error{code, "cannot open the file: " + errno_text(), path.string(), ""};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return Error{Errc::storage_failed, "cannot stat the file: " + errno_text(), path.string(), ""};
  if (!S_ISREG(status.st_mode))
    return Error{Errc::invalid_input, "not a regular file", path.string(), ""};
  std::shared_ptr<MappedFile> mapped(new MappedFile(path, std::move(file)));
  mapped->modified_ns_ = nanoseconds(status.st_mtim);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(std::move(mapped));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, mapped->file_.get(), 0);
  if (data == MAP_FAILED)
    return Error{Errc::storage_failed, "cannot map the file: " + errno_text(), path.string(), ""};
  mapped->data_ = static_cast<const std::uint8_t*>(data);
  mapped->size_ = size;
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

Result<void> MappedFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && static_cast<std::size_t>(status.st_size) == size_ &&
      nanoseconds(status.st_mtim) == modified_ns_)
    return {};
  return Error{Errc::storage_failed, "the file was changed while it was in use", path_.string(),
               "load the model again"};
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer but does not write.
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

}  // namespace verbatim::local_engine
