#pragma once
// Where tests find the shared data, and how they say that it is not there.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace verbatim::test {

/// The folder of shared data: `VERBATIM_SHARED`, else `../shared` beside the repository.
inline std::filesystem::path shared_dir() {
  if (const char* named = std::getenv("VERBATIM_SHARED"); named != nullptr) return named;
  return std::filesystem::path(VERBATIM_SOURCE_DIR) / ".." / "shared";
}

/// This process's own folder of temporary files: several runs of the tests on one machine do not meet.
/// Removed at the end, unless a test failed.
inline const std::filesystem::path& process_dir() {
  struct Folder {
    Folder() { std::filesystem::remove_all(path); }
    ~Folder() {
      const bool forked = ::getpid() != owner;  // a death test's child: the folder is not its own
      std::error_code ignored;
      if (!forked && testing::UnitTest::GetInstance()->Passed()) {
        std::filesystem::remove_all(path, ignored);
      }
    }
    const pid_t owner = ::getpid();
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / "verbatim-tests" / std::to_string(owner);
  };
  static const Folder folder;
  return folder.path;
}

/// A fresh, empty folder for the running test, deleted and made anew at each call.
inline std::filesystem::path fresh_dir(const std::string& suffix = "") {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name() + suffix;
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  const auto path = process_dir() / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

}  // namespace verbatim::test

/// Skips loudly when `path` under the shared data is missing; else defines `variable` as its full path.
#define VERBATIM_NEED_SHARED(variable, relative)                                      \
  const std::filesystem::path variable = ::verbatim::test::shared_dir() / (relative); \
  if (!std::filesystem::exists(variable))                                             \
  GTEST_SKIP() << "SKIPPED: no shared data at " << variable << "; set VERBATIM_SHARED"
