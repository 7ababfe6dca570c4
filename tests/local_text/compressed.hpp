#pragma once
// Whole files that may be compressed with xz or gzip, as the shared data are.

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace verbatim::test {

/// The decompressed bytes; a file that is not compressed comes as it is.
inline std::string read_compressed(const std::filesystem::path& path) {
  struct archive* reader = archive_read_new();
  archive_read_support_filter_all(reader);
  archive_read_support_format_raw(reader);
  struct archive_entry* entry = nullptr;
  std::string out;
  bool good = archive_read_open_filename(reader, path.c_str(), 1 << 16) == ARCHIVE_OK &&
              archive_read_next_header(reader, &entry) == ARCHIVE_OK;
  while (good) {
    char buffer[1 << 16];
    const auto size = archive_read_data(reader, buffer, sizeof buffer);
    if (size < 0) good = false;
    if (size <= 0) break;
    out.append(buffer, static_cast<std::size_t>(size));
  }
  archive_read_free(reader);
  if (!good) throw std::runtime_error("cannot read " + path.string());
  return out;
}

}  // namespace verbatim::test
