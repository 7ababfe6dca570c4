#include "model_signing/verify.hpp"

#include "local_engine/files/model_folder.hpp"
#include "model_signing/bundle.hpp"
#include "model_signing/sign.hpp"
#include "model_signing/statement.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace verbatim::model_signing {

namespace {

using local_engine::is_at_or_below;
using local_engine::ModelFile;

/// A file as it was signed: its resource, or its shards in their order.
using SignedFile = std::vector<const Resource*>;
using SignedFiles = std::map<std::string, SignedFile, std::less<>>;

SignedFiles by_file(const Statement& statement) {
  SignedFiles files;
  for (const Resource& resource : statement.resources) files[resource.file].push_back(&resource);
  for (auto& [name, parts] : files) {
    std::sort(parts.begin(), parts.end(),
              [](const auto* a, const auto* b) { return a->start < b->start; });
  }
  return files;
}

/// True for a signed file, and for a folder that has one.
bool has_signed(const SignedFiles& files, std::string_view name) {
  if (files.find(name) != files.end()) return true;
  const auto below = files.lower_bound(std::string(name) + "/");
  return below != files.end() && is_at_or_below(below->first, name);
}

/// What does not have to be signed. Takes no signed file away: each is checked, wherever it is.
class LeftOut {
 public:
  LeftOut(const VerifyOptions& options, const Statement& statement, const SignedFiles& files)
      : paths_(statement.ignore_paths), files_(files) {
    auto own = name_in_model(options.signature, options.model);
    if (own) paths_.push_back(std::move(*own));
  }
  bool operator()(std::string_view name) const {
    const bool ignored = local_engine::is_never_of_a_model(name) ||
                         std::any_of(paths_.begin(), paths_.end(), [name](const auto& path) {
                           return is_at_or_below(name, path);
                         });
    return ignored && !has_signed(files_, name);
  }

 private:
  std::vector<std::string> paths_;
  const SignedFiles& files_;
};

/// Compares the files of a model with those that were signed: first what there is, then their bytes.
class Comparison {
 public:
  Comparison(const VerifyOptions& options, const Statement& statement, SignedFiles files,
             VerifyReport& report)
      : options_(options), statement_(statement), signed_(std::move(files)), report_(report) {}

  /// One file of the model, in the order of names.
  Result<void> take(const ModelFile& file) {
    const auto found = signed_.find(file.name);
    if (found == signed_.end()) {
      if (options_.ignore_unsigned) {
        report_.unsigned_files.push_back(file.name);
      } else {
        find(file.name, "extra", file.name + " is not in the signature");
      }
      return {};
    }
    const SignedFile parts = std::move(found->second);
    signed_.erase(found);
    if (file.refused) {
      find(file.name, "refused", file.refused->message());
    } else if (file.link && !statement_.allow_symlinks) {
      find(file.name, "refused", file.name + " is a symbolic link, which the signer did not allow");
    } else {
      return take_parts(file, parts);
    }
    return {};
  }

  /// After the last file: reads them all, and writes the report's findings, sorted.
  Result<void> finish() {
    for (const auto& [name, parts] : signed_) find(name, "missing", name + " is not there");
    const auto digests = hash_parts(parts_, statement_.hash, options_.progress);
    if (!digests) return digests.error();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      report_.bytes_checked += parts_[i].end - parts_[i].start;
      if ((*digests)[i] == resources_[i]->digest) continue;
      const std::string& name = names_[i];
      find(name, "changed",
           statement_.method == Method::files
               ? name + " has other bytes than were signed"
               : name + " has other bytes than were signed from " +
                     std::to_string(parts_[i].start) + " to " + std::to_string(parts_[i].end));
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [name, problem] : found_) report_.problems.push_back(std::move(problem));
    return {};
  }

 private:
  void find(const std::string& name, const char* kind, std::string detail) {
    found_.emplace_back(name, Problem{kind, std::move(detail)});
  }

  Result<void> take_parts(const ModelFile& file, const SignedFile& parts) {
    const auto size = size_of(file.path, file.link);
    if (!size) return size.error();
    const bool whole = statement_.method == Method::files;
    if (!whole && parts.back()->end != *size) {
      find(file.name, "size",
           file.name + " has " + std::to_string(*size) + " bytes, of which " +
               std::to_string(parts.back()->end) + " were signed");
      return {};
    }
    ++report_.files_checked;
    for (const Resource* part : parts) {
      parts_.push_back(
          {file.path, file.link, whole ? 0 : part->start, whole ? *size : part->end, *size});
      resources_.push_back(part);
      names_.push_back(file.name);
    }
    return {};
  }

  const VerifyOptions& options_;
  const Statement& statement_;
  SignedFiles signed_;  // those that take() has not met
  VerifyReport& report_;
  std::vector<FilePart> parts_;  // what is to be read; beside it what was signed, and of which file
  std::vector<const Resource*> resources_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, Problem>> found_;  // by file
};

/// A problem with the signature ends it: nothing that it says can be relied on.
Result<VerifyReport> with_problem(VerifyReport report, const Problem& problem,
                                  const VerifyOptions& options) {
  if (problem.kind == "unsupported") {
    return Error{Errc::unsupported, problem.detail, options.signature.string(),
                 "verify it with the project's own tool, model_signing"};
  }
  report.problems.push_back(problem);
  return report;
}

}  // namespace

Result<VerifyReport> verify_model(const VerifyOptions& options, std::string_view bundle_text,
                                  const EcPublicKey& key) {
  VerifyReport report;
  const auto bundle = read_bundle(bundle_text);
  if (!bundle) return with_problem(std::move(report), bundle.error(), options);
  const auto payload = open_bundle(*bundle, key);
  if (!payload) return with_problem(std::move(report), payload.error(), options);
  const auto statement = read_statement(*payload);
  if (!statement) return with_problem(std::move(report), statement.error(), options);
  report.model = statement->model;
  report.root = root_of(statement->resources).hex();
  report.ignore_paths = statement->ignore_paths;

  SignedFiles signed_files = by_file(*statement);
  report.files_signed = signed_files.size();
  auto listed =
      local_engine::list_model_files(options.model, LeftOut(options, *statement, signed_files));
  if (!listed) return listed.error();
  std::error_code error;
  if (signed_files.contains(kTheOnlyFile) && !std::filesystem::is_directory(options.model, error))
    listed->front().name = kTheOnlyFile;
  Comparison comparison(options, *statement, std::move(signed_files), report);
  for (const ModelFile& file : *listed) {
    if (const auto taken = comparison.take(file); !taken) return taken.error();
  }
  if (const auto finished = comparison.finish(); !finished) return finished.error();
  return report;
}

}  // namespace verbatim::model_signing
