// Bundles of evidence from whoever sends one: zip files, and folders of which one file is another.

#include "audit/archive.hpp"
#include "audit/bundle_reader.hpp"
#include "audit/verify.hpp"
#include "audit/zip_layout.hpp"
#include "schema/file.hpp"
#include "tests/fuzz/log_fixture.hpp"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

namespace fs = std::filesystem;
using namespace audit;

/// The real bundle's files by name, in order.
const std::vector<std::pair<std::string, std::string>>& bundle_files() {
  static const auto kFiles = [] {
    (void)small_log();
    std::vector<std::pair<std::string, std::string>> files;
    const fs::path folder = scratch() / "bundle";
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      files.emplace_back(fs::relative(entry.path(), folder).string(),
                         read_file(entry.path(), 1 << 24).value());
    }
    std::sort(files.begin(), files.end());
    return files;
  }();
  return kFiles;
}

void check_report(const Result<VerifyReport>& report, bool changed) {
  if (!report) return;
  VERBATIM_CHECK(report->problems.size() <= 1000);
  VERBATIM_CHECK((report->verdict == Verdict::valid) == report->problems.empty());
  if (report->verdict == Verdict::valid && report->vkey == small_log().vkey && !changed) {
    VERBATIM_CHECK(report->size == small_log().leaves.size());
  }
}

void check_zip(std::string_view bytes) {
  const fs::path path = scratch_file("fuzzed.zip", bytes);
  const bool one_meaning = check_zip_layout(path).has_value();
  const auto extracted = ExtractedArchive::extract(path);
  VERBATIM_CHECK(one_meaning || !extracted);
  if (!extracted) return;
  for (const auto& entry : fs::recursive_directory_iterator(extracted->folder())) {
    VERBATIM_CHECK(!entry.is_symlink());
  }
  VerifyOptions options;
  options.vkey = small_log().vkey;
  check_report(verify(path, options), true);
}

/// One file of the bundle is another: no verdict but VALID with the log's own key may come of it where it counts.
void check_folder(std::size_t place, std::string_view bytes) {
  const auto& [name, real] = bundle_files()[place];
  const fs::path path = scratch() / "bundle" / name;
  (void)scratch_file("bundle/" + name, bytes);
  VerifyOptions options;
  options.vkey = small_log().vkey;
  const auto report = verify(scratch() / "bundle", options);
  check_report(report, bytes != real);
  if (bytes != real && report && report->verdict == Verdict::valid) {
    // What the manifest signs for is in every byte; the rest may differ in what nobody reads.
    VERBATIM_CHECK(report->size == small_log().leaves.size());
  }
  (void)BundleReader::open(scratch() / "bundle", options);
  (void)scratch_file("bundle/" + name, real);
}

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  if (choice == 0) return check_zip(input);
  check_folder(choice % bundle_files().size(), input);
}

std::vector<std::string> seeds() {
  (void)small_log();
  std::vector<std::string> all = {read_file(scratch() / "bundle.zip", 1 << 24).value() + '\0'};
  const auto& files = bundle_files();
  for (std::size_t i = 0; i < files.size(); ++i) {
    // A choice above 0 that names the file.
    all.push_back(files[i].second + static_cast<char>(i == 0 ? files.size() : i));
  }
  return all;
}

const Registration kBundle({"bundle",
                            run,
                            seeds,
                            {"PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07",
                             "PK\x07\x08", "../", "manifest.json", "\"files\":{", "\"sha256\":\"",
                             "\xFF\xFF\xFF\xFF", "null", "-1"}});

}  // namespace

}  // namespace verbatim::fuzz
