#include "audit/archive.hpp"

#include "audit/zip_layout.hpp"
#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace verbatim::audit {

namespace {

namespace fs = std::filesystem;

struct FreeReader {
  void operator()(archive* a) const { archive_read_free(a); }
};
struct FreeWriter {
  void operator()(archive* a) const { archive_write_free(a); }
};
struct FreeEntry {
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};

Error hostile(const std::string& what, const fs::path& path) {
  return Error{Errc::invalid_input, what, path.string(), "this is no bundle of verbatim's"};
}

Error cannot_write(const fs::path& path) {
  return Error{Errc::storage_failed, "cannot write the file: " + errno_text(), path.string(),
               "is there room, and may this user write there?"};
}

/// Unpacks one entry's data. `room`: bytes that may still come out, counted down.
Result<void> unpack(archive* reader, const fs::path& zip, const fs::path& to, std::uint64_t& room) {
  std::ofstream file(to, std::ios::binary);
  std::array<char, 65'536> chunk;
  for (;;) {
    const la_ssize_t got = archive_read_data(reader, chunk.data(), chunk.size());
    if (got < 0) return hostile("the archive is damaged", zip);
    if (got == 0) break;
    if (static_cast<std::uint64_t>(got) > room) {
      return hostile("the archive unpacks to more than it can hold", zip);
    }
    room -= static_cast<std::uint64_t>(got);
    file.write(chunk.data(), static_cast<std::streamsize>(got));
    if (!file) return cannot_write(to);
  }
  file.close();
  if (!file) return cannot_write(to);
  return {};
}

Result<void> unpack_all(archive* reader, const fs::path& zip, const fs::path& folder) {
  std::error_code error;
  const std::uint64_t zip_bytes = fs::file_size(zip, error);
  std::uint64_t room =
      std::min(ExtractedArchive::kBytesMax, zip_bytes * ExtractedArchive::kRatioMax);
  std::uint64_t files = 0;
  archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(reader, &entry);
    if (code == ARCHIVE_EOF) return {};
    if (code != ARCHIVE_OK) return hostile("not a zip file, or a damaged one", zip);
    const char* const raw = archive_entry_pathname(entry);
    const std::string name = raw != nullptr ? raw : "";
    const bool folder_entry = archive_entry_filetype(entry) == AE_IFDIR;
    if (folder_entry && name.ends_with('/') && is_bundle_path(name.substr(0, name.size() - 1))) {
      continue;
    }
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
        !is_bundle_path(name)) {
      return hostile("the archive has an entry that is no plain file in it: " + name.substr(0, 64),
                     zip);
    }
    if (++files > ExtractedArchive::kFilesMax)
      return hostile("the archive has too many files", zip);
    const fs::path to = folder / name;
    fs::create_directories(to.parent_path(), error);
    if (error || fs::exists(fs::symlink_status(to, error))) {
      return hostile("the archive has a name twice: " + name.substr(0, 64), zip);
    }
    if (auto done = unpack(reader, zip, to, room); !done) return done;
  }
}

class FolderSink final : public BundleSink {
 public:
  /// `made`: the folder is ours too; else it was there, and empty.
  FolderSink(fs::path out, bool made) : out_(std::move(out)), made_(made) {}
  ~FolderSink() override {
    if (done_) return;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(out_, ignored)) {
      fs::remove_all(entry.path(), ignored);
    }
    if (made_) fs::remove(out_, ignored);
  }

  Result<void> add(const std::string& name, std::string_view bytes) override {
    VERBATIM_CHECK(is_bundle_path(name));
    const fs::path to = out_ / name;
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    std::ofstream file(to, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) return cannot_write(to);
    return {};
  }
  Result<void> finish() override {
    done_ = true;
    return {};
  }

 private:
  fs::path out_;
  bool made_;
  bool done_ = false;
};

class ZipSink final : public BundleSink {
 public:
  explicit ZipSink(fs::path out)
      : out_(std::move(out)), temporary_(out_.string() + ".tmp"), zip_(archive_write_new()) {}
  ~ZipSink() override {
    zip_.reset();
    if (!done_) ::unlink(temporary_.c_str());
  }

  Result<void> open() {
    file_ = Descriptor(
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file_.ok()) return cannot_write(temporary_);
    archive_write_set_format_zip(zip_.get());
    if (archive_write_open_fd(zip_.get(), file_.get()) != ARCHIVE_OK) return failure();
    return {};
  }
  Result<void> add(const std::string& name, std::string_view bytes) override {
    VERBATIM_CHECK(is_bundle_path(name));
    const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
    // The earliest time that zip can say: the same evidence makes the same file.
    archive_entry_set_mtime(entry.get(), 315'532'800, 0);
    if (archive_write_header(zip_.get(), entry.get()) != ARCHIVE_OK) return failure();
    const la_ssize_t put = archive_write_data(zip_.get(), bytes.data(), bytes.size());
    if (put != static_cast<la_ssize_t>(bytes.size())) return failure();
    return {};
  }
  Result<void> finish() override {
    if (archive_write_close(zip_.get()) != ARCHIVE_OK) return failure();
    std::error_code error;
    fs::rename(temporary_, out_, error);
    if (error) return cannot_write(out_);
    done_ = true;
    return {};
  }

 private:
  Error failure() {
    const char* const text = archive_error_string(zip_.get());
    return Error{Errc::storage_failed,
                 std::string("cannot write the archive: ") + (text != nullptr ? text : ""),
                 temporary_.string(), "is there room, and may this user write there?"};
  }
  fs::path out_, temporary_;
  Descriptor file_;  // the owner's alone: it may hold what was said
  std::unique_ptr<archive, FreeWriter> zip_;
  bool done_ = false;
};

}  // namespace

bool is_bundle_path(std::string_view path) {
  if (path.empty() || path.size() > 512) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
  }
  while (true) {
    const std::size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == std::string_view::npos) return true;
    path.remove_prefix(end + 1);
  }
}

Result<ExtractedArchive> ExtractedArchive::extract(const fs::path& path) {
  if (auto one_meaning = check_zip_layout(path); !one_meaning) return one_meaning.error();
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "verbatim-bundle-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return cannot_write(folder);
  ExtractedArchive extracted{fs::path(folder)};
  const std::unique_ptr<archive, FreeReader> reader(archive_read_new());
  archive_read_support_format_zip(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), 65'536) != ARCHIVE_OK) {
    return hostile("not a zip file", path);
  }
  if (auto done = unpack_all(reader.get(), path, extracted.folder_); !done) return done.error();
  return extracted;
}

ExtractedArchive::~ExtractedArchive() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<std::unique_ptr<BundleSink>> BundleSink::open(const fs::path& out) {
  std::error_code error;
  const bool empty_folder = fs::is_directory(out, error) && fs::is_empty(out, error);
  const bool zip = out.extension() == ".zip";
  if (fs::exists(fs::symlink_status(out, error)) && (zip || !empty_folder)) {
    return Error{Errc::invalid_input, "there is something at this place already", out.string(),
                 "choose a new name"};
  }
  if (zip) {
    auto sink = std::make_unique<ZipSink>(out);
    if (auto opened = sink->open(); !opened) return opened.error();
    return std::unique_ptr<BundleSink>(std::move(sink));
  }
  fs::create_directories(out, error);
  if (error) {
    return Error{Errc::storage_failed, "cannot make the folder: " + error.message(), out.string(),
                 ""};
  }
  // What was said is in there: for its owner, until he gives it away.
  if (!empty_folder) fs::permissions(out, fs::perms::owner_all, error);
  return std::unique_ptr<BundleSink>(std::make_unique<FolderSink>(out, !empty_folder));
}

}  // namespace verbatim::audit
