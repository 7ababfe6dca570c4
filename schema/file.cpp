#include "schema/file.hpp"

#include "schema/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbatim {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

Error failure(const std::string& what, const std::filesystem::path& path) {
  const Errc code = errno == ENOENT ? Errc::not_found : Errc::storage_failed;
  return Error{code, what + ": " + errno_text(), path.string(), ""};
}

}  // namespace

std::string errno_text() {
  const char* text = ::strerrordesc_np(errno);
  return text != nullptr ? text : "error " + std::to_string(errno);
}

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return failure("cannot open the file", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failure("cannot read the file", path);
  if (!S_ISREG(info.st_mode)) {
    return Error{Errc::invalid_input, "not a regular file", path.string(), ""};
  }
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("cannot read the file", path);
    if (got == 0) return bytes;
    bytes.append(chunk, 0, static_cast<std::size_t>(got));
    if (bytes.size() > bytes_max) {
      return Error{Errc::invalid_input,
                   "the file is larger than " + std::to_string(bytes_max) + " bytes", path.string(),
                   ""};
    }
  }
}

Result<void> check_can_write(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto there = std::filesystem::symlink_status(path, ignored);
  if (std::filesystem::is_directory(there)) {
    return Error{Errc::invalid_input, "a folder is where the file should go", path.string(),
                 "name a file in it"};
  }
  // The new file takes the place of the name: of a link, not of what it leads to; of a device, for good.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return Error{Errc::invalid_input, "what is there is no regular file, and would be replaced",
                 path.string(), "name another file"};
  }
  if (::access(folder_of(path).c_str(), W_OK | X_OK) != 0) {
    return failure("cannot create the file", path);
  }
  return {};
}

Result<void> write_file(const std::filesystem::path& path, std::string_view bytes, unsigned mode) {
  if (auto possible = check_can_write(path); !possible) return possible;
  const std::filesystem::path folder = folder_of(path);
  const std::string temporary = path.string() + ".tmp." + std::to_string(::getpid());
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                                 static_cast<mode_t>(mode)));
    if (!file.ok()) return failure("cannot create the file", path);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = ::write(file.get(), bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const Error error = failure("cannot write the file", path);
        ::unlink(temporary.c_str());
        return error;
      }
      done += static_cast<std::size_t>(put);
    }
    if (::fsync(file.get()) != 0) {
      const Error error = failure("cannot sync the file", path);
      ::unlink(temporary.c_str());
      return error;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = failure("cannot rename the file", path);
    ::unlink(temporary.c_str());
    return error;
  }
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok() || ::fsync(directory.get()) != 0) {
    return failure("cannot sync the folder", folder);
  }
  return {};
}

}  // namespace verbatim
