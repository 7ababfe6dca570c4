#pragma once
// Verifying a model: `verbatim model verify`. Every byte that was signed is read; nothing is taken from what is known of a
// file's size and times.

#include "model_signing/ec_key.hpp"
#include "model_signing/hash_files.hpp"
#include "model_signing/problem.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::model_signing {

struct VerifyOptions {
  std::filesystem::path model;      ///< a folder or a file
  std::filesystem::path signature;  ///< the bundle; no part of the model, if it is in it
  bool ignore_unsigned =
      false;  ///< files that the signature does not name are listed, and no problem
  HashProgress progress;
};

struct VerifyReport {
  /// Empty: the model is what the key signed. One for each file that is not, by name; or the one thing that is wrong with
  /// the signature, and then no file was looked at.
  std::vector<Problem> problems;
  std::string
      model;  ///< the signer's name for it; this and what follows is empty if the signature is not the key's
  std::string root;  ///< root digest, in hexadecimal
  std::vector<std::string> ignore_paths;
  std::size_t files_signed = 0, files_checked = 0;
  std::uint64_t bytes_checked = 0;
  std::vector<std::string> unsigned_files;  ///< with `ignore_unsigned`

  [[nodiscard]] bool valid() const { return problems.empty(); }
};

/// Whether the model is what is signed in `bundle` by `key`. `unsupported`: signed by a certificate, or with a digest or a
/// method that is not done here. `not_found`, `storage_failed`: the model cannot be read.
[[nodiscard]] Result<VerifyReport> verify_model(const VerifyOptions& options,
                                                std::string_view bundle, const EcPublicKey& key);

}  // namespace verbatim::model_signing
