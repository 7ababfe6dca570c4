#include "audit/backup_mark.hpp"

#include "audit/json_member.hpp"
#include "schema/clock.hpp"
#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::audit {

namespace {

constexpr std::uint64_t kMarkBytesMax = 4096;
constexpr std::uint64_t kExactMax = std::uint64_t{1} << 53;

}  // namespace

Result<void> write_backup_mark(const std::filesystem::path& folder, const BackupMark& mark) {
  const Json json = {
      {"made", format_rfc3339(mark.made_us)}, {"root", mark.root.hex()}, {"size", mark.size}};
  return write_file(folder / kBackupMarkName, json.dump() + "\n", 0600);
}

std::optional<Json> restored_fields(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kBackupMarkName, kMarkBytesMax);
  if (!text && text.error().code == Errc::not_found) return std::nullopt;
  Json fields = Json::object();
  const auto mark = text ? parse_json(*text) : Result<Json>(text.error());
  if (!mark) return fields;
  // The file may say anything: a leaf takes from it what has the form that it should have.
  const Json* const size = member(*mark, "size");
  if (size != nullptr && size->is_number_unsigned() && size->get<std::uint64_t>() <= kExactMax) {
    fields["backup_size"] = *size;
  }
  const std::string made = text_at(*mark, "made"), root = text_at(*mark, "root");
  if (const auto time = parse_rfc3339(made)) fields["backup_time"] = format_rfc3339(*time);
  if (const auto digest = parse_digest(root)) fields["backup_root"] = digest->hex();
  return fields;
}

Result<void> remove_backup_mark(const std::filesystem::path& folder) {
  const auto path = folder / kBackupMarkName;
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return Error{Errc::storage_failed, "cannot take the backup's mark away: " + errno_text(),
                 path.string(), "remove it: the log has its restored leaf"};
  }
  const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::fsync(parent.get()) != 0) {
    return Error{Errc::storage_failed, "cannot sync the folder: " + errno_text(), folder.string(),
                 ""};
  }
  return {};
}

std::string restored_text(const Json& fields) {
  const Json* const size = member(fields, "backup_size");
  std::string text = "this log goes on from a backup";
  if (const std::string made = text_at(fields, "backup_time"); !made.empty()) text += " of " + made;
  if (size != nullptr) text += " with " + size->dump() + " leaves";
  return text +
         ", and a restored leaf says so. What was recorded after that is not in it: checkpoints, "
         "receipts and witnesses that know of more will not agree with this log. docs/backup.md "
         "says what to tell whom";
}

}  // namespace verbatim::audit
