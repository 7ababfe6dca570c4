#include "audit/zip_layout.hpp"

#include "schema/bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace verbatim::audit {

namespace {

// PKWARE's APPNOTE, section 4.3: signatures and sizes of the fixed parts.
constexpr std::uint32_t kLocal = 0x0403'4b50, kCentral = 0x0201'4b50, kEnd = 0x0605'4b50;
constexpr std::uint32_t kEnd64 = 0x0606'4b50, kLocator64 = 0x0706'4b50, kDescriptor = 0x0807'4b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint32_t kElsewhere = 0xffff'ffff;  // the value is in a zip64 field
constexpr std::uint64_t kDirectoryBytesMax = 1u << 30;
constexpr unsigned kEncrypted = 1, kSizesAfter = 8;
/// Besides that one: how hard deflate tried, and that the name is UTF-8. The others change what the entry is.
constexpr unsigned kFlagsKnown = kSizesAfter | 0x0806;

/// Little-endian fields of a piece of the file.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t at(std::size_t place, std::size_t width) const {
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(bytes_[place + i]);
    }
    return value;
  }
  [[nodiscard]] unsigned u16(std::size_t place) const {
    return static_cast<unsigned>(at(place, 2));
  }
  [[nodiscard]] std::uint32_t u32(std::size_t place) const {
    return static_cast<std::uint32_t>(at(place, 4));
  }
  [[nodiscard]] std::uint64_t u64(std::size_t place) const { return at(place, 8); }

 private:
  std::string_view bytes_;
};

/// What the directory says of one entry.
struct Entry {
  unsigned flags = 0, method = 0;
  std::uint32_t crc = 0, attributes = 0;
  std::uint64_t packed = 0, bytes = 0, offset = 0;
  std::string_view name;
};

/// Fields of which every reader makes the same: zip64's sizes, times (NTFS, Info-ZIP), and Info-ZIP's owner. By others some
/// readers take another name, size or kind of file than the entry itself says.
const std::set<std::uint64_t> kKnownFields = {0x0001, 0x000a, 0x5455, 0x7875};
constexpr std::uint64_t kStored = 0, kDeflated = 8;

/// A file, or a folder by its name's end, also by its attributes: the kind of Unix is in the uppermost bits (4 a folder, 8 a
/// plain file, 0 none), that of DOS in one bit. Names are ASCII: what others are, some readers take from the locale.
bool is_plain(const Entry& entry) {
  const bool folder = entry.name.ends_with('/');
  const unsigned kind = entry.attributes >> 28;
  const bool dos_folder = (entry.attributes & 0x10) != 0;
  return std::all_of(entry.name.begin(), entry.name.end(),
                     [](char c) { return (c & 0x80) == 0; }) &&
         (kind == 0 || kind == (folder ? 4U : 8U)) && (folder ? entry.bytes == 0 : !dos_folder);
}

/// The directory's place, from the end of the file.
struct Directory {
  std::uint64_t entries = 0, bytes = 0, offset = 0;
};

class ZipFile {
 public:
  explicit ZipFile(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    file_.seekg(0, std::ios::end);
    if (file_) size_ = static_cast<std::uint64_t>(file_.tellg());
  }

  Result<void> check();

 private:
  [[nodiscard]] Error refused(const std::string& what) const {
    return Error{Errc::invalid_input, "the archive " + what, path_.string(),
                 "this is no bundle of verbatim's"};
  }
  [[nodiscard]] Error two_opinions(const Entry& entry) const {
    return refused("has two opinions on its entry" + quoted(entry));
  }
  static std::string quoted(const Entry& entry) {
    return " " + std::string(entry.name.substr(0, 64));
  }
  /// Exactly so many bytes, or nothing.
  std::optional<std::string> read(std::uint64_t offset, std::uint64_t bytes);
  Result<Directory> find_directory();
  Result<std::uint64_t> take_entry(std::string_view directory, Entry& entry) const;
  bool take_zip64(std::string_view extra, Entry& entry) const;
  /// Where the entry ends, descriptor included.
  Result<std::uint64_t> check_local(const Entry& entry);
  Result<std::uint64_t> check_descriptor(const Entry& entry, std::uint64_t at);

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
};

std::optional<std::string> ZipFile::read(std::uint64_t offset, std::uint64_t bytes) {
  if (offset > size_ || bytes > size_ - offset) return std::nullopt;
  std::string text(bytes, '\0');
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  file_.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!file_) return std::nullopt;
  return text;
}

Result<Directory> ZipFile::find_directory() {
  const auto end = size_ < kEndBytes ? std::nullopt : read(size_ - kEndBytes, kEndBytes);
  if (!end || Fields(*end).u32(0) != kEnd) {
    return refused("is no zip file, or has bytes or a comment after its end");
  }
  const Fields fields(*end);
  if (fields.u32(4) != 0 || fields.u16(8) != fields.u16(10) || fields.u16(20) != 0)
    return refused("has several disks or a comment");
  Directory directory{fields.u16(10), fields.u32(12), fields.u32(16)};
  std::uint64_t behind = size_ - kEndBytes;  // the directory must end here
  const auto locator =
      behind < kLocator64Bytes ? std::nullopt : read(behind - kLocator64Bytes, kLocator64Bytes);
  if (locator && Fields(*locator).u32(0) == kLocator64) {
    behind -= kLocator64Bytes;
    const auto end64 =
        behind < kEnd64Bytes ? std::nullopt : read(behind - kEnd64Bytes, kEnd64Bytes);
    behind -= kEnd64Bytes;
    if (!end64 || Fields(*end64).u32(0) != kEnd64 || Fields(*end64).u64(4) != kEnd64Bytes - 12 ||
        Fields(*locator).u64(8) != behind) {
      return refused("has a zip64 end that is not where it should be");
    }
    const Fields wide(*end64);
    if (wide.u64(16) != 0 || wide.u64(24) != wide.u64(32) || Fields(*locator).u32(4) != 0) {
      return refused("has several disks");
    }
    const Directory real{wide.u64(32), wide.u64(40), wide.u64(48)};
    const auto differs = [](std::uint64_t narrow, std::uint64_t full, std::uint64_t marker) {
      return narrow != marker && narrow != full;
    };
    if (differs(directory.entries, real.entries, 0xffff) ||
        differs(directory.bytes, real.bytes, kElsewhere) ||
        differs(directory.offset, real.offset, kElsewhere)) {
      return refused("has two ends that disagree");
    }
    directory = real;
  }
  if (directory.bytes > kDirectoryBytesMax || directory.offset > behind ||
      directory.bytes != behind - directory.offset) {
    return refused("has bytes before it, or beside its directory");
  }
  return directory;
}

bool ZipFile::take_zip64(std::string_view extra, Entry& entry) const {
  std::set<std::uint64_t> kinds;
  while (extra.size() >= 4) {
    const Fields head(extra);
    const std::size_t bytes = head.u16(2);
    if (bytes > extra.size() - 4) return false;
    if (bytes == 0 || !kKnownFields.contains(head.u16(0)) || !kinds.insert(head.u16(0)).second) {
      return false;
    }
    if (head.u16(0) == 1) {
      std::size_t at = 4;
      for (std::uint64_t* value : {&entry.bytes, &entry.packed, &entry.offset}) {
        if (*value != kElsewhere) continue;
        if (at + 8 > bytes + 4) return false;
        *value = head.u64(at);
        at += 8;
      }
    }
    extra.remove_prefix(4 + bytes);
  }
  return extra.empty();
}

Result<std::uint64_t> ZipFile::take_entry(std::string_view directory, Entry& entry) const {
  if (directory.size() < kCentralBytes || Fields(directory).u32(0) != kCentral) {
    return refused("has a damaged directory");
  }
  const Fields fields(directory);
  entry = {fields.u16(8),  fields.u16(10), fields.u32(16), fields.u32(38),
           fields.u32(20), fields.u32(24), fields.u32(42), {}};
  const std::size_t name = fields.u16(28);
  const std::size_t extra = fields.u16(30);
  if (fields.u16(32) != 0 || fields.u16(34) != 0 ||
      directory.size() - kCentralBytes < name + extra) {
    return refused("has an entry with a comment or on another disk");
  }
  entry.name = directory.substr(kCentralBytes, name);
  if (!take_zip64(directory.substr(kCentralBytes + name, extra), entry)) {
    return refused("has a damaged directory, or an extra field that could say something else");
  }
  if ((entry.flags & kEncrypted) != 0) return refused("is encrypted");
  const bool sizes_fit = entry.method == kStored && entry.packed == entry.bytes;
  if ((entry.flags & ~kFlagsKnown) != 0 || (!sizes_fit && entry.method != kDeflated)) {
    return refused("is packed in another way than deflate");
  }
  if (!is_plain(entry)) return refused("has an entry that is no plain file" + quoted(entry));
  return kCentralBytes + name + extra;
}

Result<std::uint64_t> ZipFile::check_local(const Entry& entry) {
  const auto head = read(entry.offset, kLocalBytes);
  if (!head || Fields(*head).u32(0) != kLocal) return refused("has no entry" + quoted(entry));
  const Fields fields(*head);
  const auto names = read(entry.offset + kLocalBytes, fields.u16(26));
  if (!names || *names != entry.name || fields.u16(6) != entry.flags ||
      fields.u16(8) != entry.method) {
    return two_opinions(entry);
  }
  const std::uint64_t data = entry.offset + kLocalBytes + fields.u16(26) + fields.u16(28);
  if (entry.packed > size_ || data + entry.packed > size_) return refused("is cut short");
  const std::uint64_t end = data + entry.packed;
  Entry local = {0, 0, fields.u32(14), 0, fields.u32(18), fields.u32(22), 0, {}};
  const auto extra = read(entry.offset + kLocalBytes + fields.u16(26), fields.u16(28));
  if (!extra || !take_zip64(*extra, local)) return two_opinions(entry);
  const bool after = (entry.flags & kSizesAfter) != 0;
  // Only where the sizes follow the data may they be missing here.
  const auto says = [&](std::uint64_t here, std::uint64_t truth) {
    return here == truth || (after && here == 0);
  };
  if (!says(local.packed, entry.packed) || !says(local.bytes, entry.bytes) ||
      !says(local.crc, entry.crc)) {
    return two_opinions(entry);
  }
  return after ? check_descriptor(entry, end) : std::uint64_t{end};
}

Result<std::uint64_t> ZipFile::check_descriptor(const Entry& entry, std::uint64_t at) {
  for (const std::size_t width : {std::size_t{4}, std::size_t{8}}) {
    for (const std::size_t signature : {std::size_t{4}, std::size_t{0}}) {
      const auto bytes = read(at, signature + 4 + 2 * width);
      if (!bytes) continue;
      const Fields fields(*bytes);
      if ((signature == 0 || fields.u32(0) == kDescriptor) && fields.u32(signature) == entry.crc &&
          fields.at(signature + 4, width) == entry.packed &&
          fields.at(signature + 4 + width, width) == entry.bytes) {
        return at + bytes->size();
      }
    }
  }
  return two_opinions(entry);
}

Result<void> ZipFile::check() {
  const auto directory = find_directory();
  if (!directory) return directory.error();
  const auto bytes = read(directory->offset, directory->bytes);
  if (!bytes) return refused("cannot be read");
  std::string_view rest = *bytes;
  std::uint64_t reached = 0;
  for (std::uint64_t i = 0; i < directory->entries; ++i) {
    Entry entry;
    const auto taken = take_entry(rest, entry);
    if (!taken) return taken.error();
    rest.remove_prefix(*taken);
    if (entry.offset != reached) return refused("has bytes that its directory does not list");
    const auto end = check_local(entry);
    if (!end) return end.error();
    reached = *end;
  }
  if (!rest.empty() || reached != directory->offset) {
    return refused("has bytes that its directory does not list");
  }
  return {};
}

}  // namespace

Result<void> check_zip_layout(const std::filesystem::path& path) { return ZipFile(path).check(); }

}  // namespace verbatim::audit
