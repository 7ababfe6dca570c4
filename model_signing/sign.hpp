#pragma once
// Signing a model: `verbatim model sign`. OpenSSF Model Signing v1.0, method "key", serialization "files", SHA-256.

#include "model_signing/ec_key.hpp"
#include "model_signing/hash_files.hpp"
#include "model_signing/statement.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::model_signing {

struct SignOptions {
  std::filesystem::path model;  ///< a folder or a file
  std::filesystem::path
      signature;  ///< where the bundle will be; left out of the model, if it is in it
  std::vector<std::string> ignore;  ///< left out too: paths from the model's folder, exact
  bool allow_symlinks = false;      ///< sign what links lead to, where that is in the model too
  HashProgress progress;
};

struct SignedModel {
  Statement statement;  ///< sorted by name
  std::string bundle;   ///< the bytes for the file
  std::uint64_t bytes = 0;
};

/// Writes nothing. `invalid_input`: no file left, a file or a link that list_model_files() refuses, a link at all without
/// `allow_symlinks`, a path in `ignore` that is none. Those of list_model_files() and hash_parts().
[[nodiscard]] Result<SignedModel> sign_model(const SignOptions& options, const EcPrivateKey& key);

/// The name by which `file` is in the folder `model`; none if it is elsewhere. Neither has to be there.
[[nodiscard]] std::optional<std::string> name_in_model(const std::filesystem::path& file,
                                                       const std::filesystem::path& model);

}  // namespace verbatim::model_signing
