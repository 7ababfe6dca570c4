#pragma once
// A model file, mapped read-only.

#include "schema/bytes.hpp"
#include "schema/descriptor.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

namespace verbatim::local_engine {

/// The bytes of a regular file, unmapped when the last owner goes. Private and read-only; another
/// process that shortens the file while it is mapped ends this one with SIGBUS, as with every
/// program that maps model files. Reading is safe from any thread.
class MappedFile {
 public:
  /// `not_found`, `invalid_input` (not a regular file), `storage_failed`.
  [[nodiscard]] static Result<std::shared_ptr<const MappedFile>> open(
      const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] Bytes bytes() const { return {data_, size_}; }
  /// `storage_failed` when the file's size or time of modification is not what it was when it was
  /// opened: the bytes may be others. A file put in its place is not this file, and changes nothing.
  [[nodiscard]] Result<void> check_unchanged() const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  Descriptor file_;                     // stays open for check_unchanged()
  const std::uint8_t* data_ = nullptr;  // null when the file is empty
  std::size_t size_ = 0;
  std::int64_t modified_ns_ = 0;
};

}  // namespace verbatim::local_engine
