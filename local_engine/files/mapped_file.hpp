#pragma once
// A model file, mapped read-only.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>

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
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::uint8_t* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::uint8_t* data_;  // null when the file is empty
  std::size_t size_;
};

}  // namespace verbatim::local_engine
