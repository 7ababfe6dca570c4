#include "local_engine/files/model_folder.hpp"

#include "schema/bytes.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::local_engine {
namespace {

namespace fs = std::filesystem;

using Refusal = std::optional<Error>;

Refusal refused(std::string what, const fs::path& where, std::string advice = "") {
  return Error{Errc::invalid_input, std::move(what), where.string(), std::move(advice)};
}

/// Names end up in lines and in JSON.
Refusal check_name(const std::string& name, const fs::path& path) {
  if (name.find('\n') != std::string::npos) return refused("a file name holds a newline", path);
  if (!is_utf8(name)) return refused("a file name is not UTF-8", path);
  return std::nullopt;
}

Refusal check_link(const fs::path& link, const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  if (error) return refused("a symbolic link leads nowhere", link);
  const fs::path inside = target.lexically_relative(fs::canonical(root, error));
  if (error || inside.empty() || *inside.begin() == "..")
    return refused("a symbolic link leads out of the model's folder", link,
                   "copy the files instead, e.g. with cp -rL");
  if (!fs::is_regular_file(target, error))
    return refused("a symbolic link to something that is not a file", link);
  return std::nullopt;
}

ModelFile examine(const fs::path& path, std::string name, fs::file_type type,
                  const fs::path& root) {
  ModelFile file{std::move(name), path, type == fs::file_type::symlink, std::nullopt};
  file.refused = check_name(file.name, path);
  if (file.refused) return file;
  if (file.link) {
    file.refused = check_link(path, root);
  } else if (type != fs::file_type::regular) {
    file.refused = refused("neither a file nor a folder", path);
  }
  return file;
}

Result<std::vector<ModelFile>> list_folder(const fs::path& root,
                                           const std::function<bool(std::string_view)>& leave_out) {
  const auto unreadable = [&root](const std::error_code& error) {
    return Error{Errc::storage_failed, "cannot read the folder: " + error.message(), root.string(),
                 ""};
  };
  std::vector<ModelFile> files;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error);
  if (error) return unreadable(error);
  while (at != fs::recursive_directory_iterator()) {
    const auto status = at->symlink_status(error);
    if (error) return unreadable(error);
    std::string name = at->path().lexically_relative(root).generic_string();
    const bool folder = status.type() == fs::file_type::directory;
    if (leave_out(name)) {
      if (folder) at.disable_recursion_pending();
    } else if (!folder) {
      files.push_back(examine(at->path(), std::move(name), status.type(), root));
    }
    at.increment(error);
    if (error) return unreadable(error);
  }
  return files;
}

}  // namespace

bool is_at_or_below(std::string_view name, std::string_view path) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '/');
}

bool is_never_of_a_model(std::string_view name) {
  return std::any_of(kNeverOfAModel.begin(), kNeverOfAModel.end(),
                     [name](std::string_view path) { return is_at_or_below(name, path); });
}

Result<std::vector<ModelFile>> list_model_files(
    const fs::path& root, const std::function<bool(std::string_view)>& leave_out) {
  std::error_code error;
  const auto status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found)
    return Error{Errc::not_found, "no such model", root.string(), ""};
  if (error)
    return Error{Errc::storage_failed, "cannot read the model: " + error.message(), root.string(),
                 ""};
  if (status.type() != fs::file_type::directory) {
    // Whoever names a link as the model means what it leads to.
    ModelFile one{root.filename().string(), fs::canonical(root, error), false, std::nullopt};
    one.refused = check_name(one.name, root);
    if (!one.refused && (error || status.type() != fs::file_type::regular))
      one.refused = refused("neither a file nor a folder", root);
    return std::vector{std::move(one)};
  }
  auto files = list_folder(root, leave_out);
  if (!files) return files.error();
  std::sort(files->begin(), files->end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

}  // namespace verbatim::local_engine
