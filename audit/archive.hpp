#pragma once
// Bundles as zip files, by libarchive: written for others, and read from whoever sends one.

#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct archive;

namespace verbatim::audit {

/// True for a relative path of plain components (no "", ".", "..", no backslash, no control characters), at most
/// 512 bytes: what a bundle may hold.
[[nodiscard]] bool is_bundle_path(std::string_view path);

/// A zip file's contents in a private temporary folder, deleted with this object.
class ExtractedArchive {
 public:
  static constexpr std::uint64_t kFilesMax = 2'000'000;
  static constexpr std::uint64_t kBytesMax = 64ull << 30;
  /// Deflate cannot do better: an archive that claims more lies.
  static constexpr std::uint64_t kRatioMax = 1032;

  /// Only regular files with bundle paths. `invalid_input`: not a zip file, or one that two readers could read
  /// differently (audit/zip_layout.hpp), another kind of entry, a path that leads out, a name twice, or more than the
  /// limits; `storage_failed`.
  [[nodiscard]] static Result<ExtractedArchive> extract(const std::filesystem::path& path);
  ExtractedArchive(ExtractedArchive&& other) noexcept
      : folder_(std::exchange(other.folder_, std::filesystem::path())) {}
  ExtractedArchive& operator=(ExtractedArchive&&) = delete;
  ~ExtractedArchive();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit ExtractedArchive(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

/// Where an export goes: a folder, or a zip file if the name ends in ".zip".
class BundleSink {
 public:
  virtual ~BundleSink() = default;
  virtual Result<void> add(const std::string& name, std::string_view bytes) = 0;
  /// What was added is complete. Without it nothing of it stays.
  virtual Result<void> finish() = 0;

  /// `invalid_input` if there is something at `out` already (an empty folder may be); `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<BundleSink>> open(const std::filesystem::path& out);
};

}  // namespace verbatim::audit
