#include "model_signing/hash_files.hpp"

#include "kernels/thread_pool.hpp"
#include "schema/bytes.hpp"
#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

namespace verbatim::model_signing {

namespace {

constexpr std::size_t kChunkBytes = 1 << 20;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

struct OpenFile {
  Descriptor file;
  std::uint64_t size = 0;
  timespec modified{};
};

Error failure(const char* what, const std::filesystem::path& path) {
  const bool absent = errno == ENOENT || errno == ENOTDIR;
  return {absent ? Errc::not_found : Errc::storage_failed, std::string(what) + ": " + errno_text(),
          path.string(), ""};
}

Result<OpenFile> open_file(const std::filesystem::path& path, bool follow_link) {
  // O_NONBLOCK: a FIFO that nobody writes must not hang. O_NOFOLLOW: a link that took the file's place since.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_link ? 0 : O_NOFOLLOW);
  Descriptor file(::open(path.c_str(), flags));
  if (!file.ok()) return failure("cannot open the file", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failure("cannot stat the file", path);
  if (!S_ISREG(status.st_mode))
    return Error{Errc::invalid_input, "not a regular file", path.string(), ""};
  return OpenFile{std::move(file), static_cast<std::uint64_t>(status.st_size), status.st_mtim};
}

bool is_unchanged(const OpenFile& open, std::uint64_t size) {
  struct stat now {};
  return open.size == size && ::fstat(open.file.get(), &now) == 0 &&
         static_cast<std::uint64_t>(now.st_size) == size &&
         now.st_mtim.tv_sec == open.modified.tv_sec && now.st_mtim.tv_nsec == open.modified.tv_nsec;
}

/// `read` is called with the size of each piece.
template <class Read>
Result<std::string> hash_part(const FilePart& part, const EVP_MD* algorithm, const Read& read) {
  const auto open = open_file(part.path, part.follow_link);
  if (!open) return open.error();
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  VERBATIM_CHECK(EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1);
  ByteVector chunk(kChunkBytes);
  for (std::uint64_t at = part.start; at < part.end;) {
    const auto wanted = std::min<std::uint64_t>(part.end - at, chunk.size());
    const ssize_t got = ::pread(open->file.get(), chunk.data(), wanted, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("cannot read the file", part.path);
    if (got == 0) break;  // it was shortened
    VERBATIM_CHECK(EVP_DigestUpdate(context.get(), chunk.data(), static_cast<std::size_t>(got)) ==
                   1);
    at += static_cast<std::uint64_t>(got);
    read(static_cast<std::uint64_t>(got));
  }
  if (!is_unchanged(*open, part.file_size)) {
    return Error{Errc::storage_failed, "the file was changed while it was read", part.path.string(),
                 "run this again when nothing writes to the model"};
  }
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  VERBATIM_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  return to_hex(Bytes(digest.data(), size));
}

}  // namespace

Result<std::uint64_t> size_of(const std::filesystem::path& path, bool follow_link) {
  const auto open = open_file(path, follow_link);
  if (!open) return open.error();
  return open->size;
}

Result<std::vector<std::string>> hash_parts(const std::vector<FilePart>& parts, Hash hash,
                                            const HashProgress& progress) {
  const EVP_MD* const algorithm = hash == Hash::sha256 ? EVP_sha256() : EVP_blake2b512();
  std::vector<std::string> digests(parts.size());
  std::vector<std::optional<Error>> errors(parts.size());
  // The largest first, so that no thread begins it when the others have ended.
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto bytes_of = [&parts](std::size_t i) { return parts[i].end - parts[i].start; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes_of(a) > bytes_of(b); });
  std::uint64_t total = 0;
  for (const std::size_t i : order) total += bytes_of(i);
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto count = [&](std::uint64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
    if (progress) progress(done, total);
  };
  std::atomic<std::size_t> next{0};
  kernels::ThreadPool pool(0);
  pool.run(static_cast<std::size_t>(pool.threads()), [&](std::size_t, std::size_t) {
    for (std::size_t at = next++; at < order.size(); at = next++) {
      const std::size_t i = order[at];
      auto digest = hash_part(parts[i], algorithm, count);
      if (digest) {
        digests[i] = std::move(*digest);
      } else {
        errors[i] = digest.error();
      }
    }
  });
  for (const auto& error : errors) {
    if (error) return *error;
  }
  return digests;
}

}  // namespace verbatim::model_signing
