#include "model_signing/sign.hpp"

#include "local_engine/files/model_folder.hpp"
#include "model_signing/bundle.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::model_signing {

namespace {

namespace fs = std::filesystem;
using local_engine::is_at_or_below;
using local_engine::ModelFile;

Error refused(std::string what, std::string where, std::string advice) {
  return {Errc::invalid_input, std::move(what), std::move(where), std::move(advice)};
}

/// What the statement says was left out, sorted. Nothing is left out of a model that is one file.
Result<std::vector<std::string>> left_out(const SignOptions& options) {
  std::error_code error;
  const auto status = fs::status(options.model, error);
  if (status.type() == fs::file_type::not_found)
    return Error{Errc::not_found, "no such model", options.model.string(), ""};
  if (!fs::is_directory(status)) {
    if (options.ignore.empty()) return std::vector<std::string>{};
    return refused("the model is one file, of which nothing can be left out",
                   options.ignore.front(), "leave out --ignore");
  }
  std::vector<std::string> paths(local_engine::kNeverOfAModel.begin(),
                                 local_engine::kNeverOfAModel.end());
  for (const std::string& given : options.ignore) {
    // Checked as given: normalising would take a ".." away unseen.
    std::string_view path = given;
    if (path.starts_with("./")) path.remove_prefix(2);
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    if (!is_plain_name(path) || !is_utf8(path) ||
        path.find_first_of("*?[") != std::string_view::npos) {
      return refused("no path from the model's folder", given,
                     "name a file or a folder in it, without *, ?, [ and ..");
    }
    paths.emplace_back(path);
  }
  if (auto own = name_in_model(options.signature, options.model); own) {
    if (!is_plain_name(*own) || !is_utf8(*own))
      return refused("a file name holds a newline or is not UTF-8", options.signature.string(),
                     "choose another name");
    paths.push_back(std::move(*own));
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

/// The last part of the model's path, as it was given if it has one.
Result<std::string> name_of(const fs::path& model) {
  fs::path name = model.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  name = name.filename();
  if (name.empty() || name == "." || name == "..") {
    std::error_code error;
    name = fs::canonical(model, error).filename();
  }
  if (name.empty()) return std::string("model");
  if (!is_utf8(name.string()))
    return refused("the model's name is not UTF-8", model.string(), "rename it");
  return name.string();
}

Result<std::vector<FilePart>> parts_of(const std::vector<ModelFile>& files, bool allow_symlinks) {
  std::vector<FilePart> parts;
  for (const ModelFile& file : files) {
    if (file.refused) return *file.refused;
    if (file.link && !allow_symlinks) {
      return refused("a symbolic link in the model", file.path.string(),
                     "copy the files, e.g. with cp -rL, or pass --allow-symlinks");
    }
    const auto size = size_of(file.path, file.link);
    if (!size) return size.error();
    parts.push_back({file.path, file.link, 0, *size, *size});
  }
  return parts;
}

}  // namespace

std::optional<std::string> name_in_model(const fs::path& file, const fs::path& model) {
  std::error_code error;
  const fs::path root = fs::canonical(model, error);
  if (error || !fs::is_directory(root, error)) return std::nullopt;
  // Links on the way are followed, but not the file itself: its own name is what the folder holds.
  const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path(), error);
  if (error || !file.has_filename()) return std::nullopt;
  const std::string name = (folder / file.filename()).lexically_relative(root).generic_string();
  if (name.empty() || name == "." || is_at_or_below(name, "..")) return std::nullopt;
  return name;
}

Result<SignedModel> sign_model(const SignOptions& options, const EcPrivateKey& key) {
  SignedModel result;
  Statement& statement = result.statement;
  auto name = name_of(options.model);
  if (!name) return name.error();
  statement.model = std::move(*name);
  statement.allow_symlinks = options.allow_symlinks;
  auto ignore = left_out(options);
  if (!ignore) return ignore.error();
  statement.ignore_paths = std::move(*ignore);

  const auto files =
      local_engine::list_model_files(options.model, [&statement](std::string_view file) {
        return std::any_of(statement.ignore_paths.begin(), statement.ignore_paths.end(),
                           [file](const auto& path) { return is_at_or_below(file, path); });
      });
  if (!files) return files.error();
  if (files->empty())
    return refused("no file to sign in the folder", options.model.string(), "name a model");
  const auto parts = parts_of(*files, options.allow_symlinks);
  if (!parts) return parts.error();
  auto digests = hash_parts(*parts, statement.hash, options.progress);
  if (!digests) return digests.error();
  for (std::size_t i = 0; i < files->size(); ++i) {
    statement.resources.push_back({(*files)[i].name, std::move((*digests)[i]), 0, 0});
    result.bytes += (*parts)[i].file_size;
  }
  result.bundle = sign_statement(write_statement(statement), key);
  if (result.bundle.size() > kBundleBytesMax) {
    return refused("the signature would be larger than any that is read", options.model.string(),
                   "sign a folder of fewer files");
  }
  return result;
}

}  // namespace verbatim::model_signing
