#pragma once
// Files for targets that read them by name.

#include "tests/fuzz/target.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace verbatim::fuzz {

/// This process's own folder, in memory where there is such a place; gone when the process ends in the usual way.
inline const std::filesystem::path& scratch() {
  struct Folder {
    Folder() {
      std::error_code none;
      const std::filesystem::path memory = "/dev/shm";
      const auto base =
          ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path(none);
      path = base / ("verbatim-fuzz-" + std::to_string(::getpid()));
      std::filesystem::remove_all(path);
      std::filesystem::create_directories(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

/// Writes a file of this name in the folder, over what was there.
inline std::filesystem::path scratch_file(std::string_view name, std::string_view bytes) {
  const auto path = scratch() / name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace verbatim::fuzz
