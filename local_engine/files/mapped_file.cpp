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

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes must not hang; it is refused below.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    const auto code = errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::storage_failed;
    return Error{code, "cannot open the file: " + errno_text(), path.string(), ""};
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return Error{Errc::storage_failed, "cannot stat the file: " + errno_text(), path.string(), ""};
  if (!S_ISREG(status.st_mode))
    return Error{Errc::invalid_input, "not a regular file", path.string(), ""};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED)
      return Error{Errc::storage_failed, "cannot map the file: " + errno_text(), path.string(), ""};
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer but does not write.
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

}  // namespace verbatim::local_engine
