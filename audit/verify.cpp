#include "audit/verify.hpp"

#include "audit/archive.hpp"
#include "audit/verify_log.hpp"

namespace verbatim::audit {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::valid:
      return "VALID";
    case Verdict::valid_unwitnessed:
      return "VALID_UNWITNESSED";
    case Verdict::tampered:
      return "TAMPERED";
    case Verdict::truncated:
      return "TRUNCATED";
    case Verdict::forked:
      return "FORKED";
    case Verdict::stale:
      return "STALE";
  }
  return "TAMPERED";
}

Result<VerifyReport> verify(const std::filesystem::path& path, const VerifyOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    auto extracted = ExtractedArchive::extract(path);
    if (!extracted) return extracted.error();
    if (!std::filesystem::exists(extracted->folder() / "manifest.json", error)) {
      return Error{Errc::invalid_input, "the archive holds no bundle of evidence", path.string(),
                   ""};
    }
    return verify_bundle(extracted->folder(), options);
  }
  const auto has = [&](const char* name) { return std::filesystem::exists(path / name, error); };
  if (has("manifest.json")) return verify_bundle(path, options);
  if (has("log.db") || has("high-water")) return verify_log(path, options);
  if (error) {
    return Error{Errc::storage_failed, "cannot look at it: " + error.message(), path.string(),
                 "may this user read there?"};
  }
  if (!std::filesystem::exists(path, error)) {
    return Error{Errc::not_found, "there is no such file or folder", path.string(), ""};
  }
  return Error{Errc::not_found, "neither a log nor a bundle of evidence", path.string(),
               "give the log's folder, or what `verbatim export` made"};
}

}  // namespace verbatim::audit
