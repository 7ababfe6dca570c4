#pragma once
// The fingerprint of a model that is already open, so that what is hashed is what is computed with.

#include "local_engine/fingerprint.hpp"
#include "local_engine/model/model_files.hpp"

#include <filesystem>
#include <vector>

namespace verbatim::local_engine {

/// As fingerprint(). weights_sha256 is the SHA-256 of the canonical JSON
///   {"chat_template_sha256", "config_sha256", "eos_ids", "format": "verbatim/weights/v1",
///    "tensors": [{"dtype", "name", "sha256", "shape"}, ... by name], "tokenizer_sha256"}
/// (absent parts are absent members). It does not see file names, shards, or where a tensor lies in
/// a file. For a folder, config_sha256 is over the JCS of config.json; for a GGUF over the
/// architecture's key-values.
[[nodiscard]] Result<Fingerprint> fingerprint_of(const ModelFiles& files);

/// Every regular file below `root` but the top-level .git, .gitignore, .gitattributes and .github
/// (as Model Signing does), or `root` itself by its base name; sorted by the bytes of the name.
/// Errors as fingerprint().
[[nodiscard]] Result<std::vector<FileDigest>> digest_files(const std::filesystem::path& root);

/// From the digests alone, sorted by name: reference formats that others can check.
[[nodiscard]] Digest manifest_digest(const std::vector<FileDigest>& files);
[[nodiscard]] Digest dirhash1(const std::vector<FileDigest>& files);
/// Model Signing v1.0, method "files". It does not bind the names: an alias, never an identity.
[[nodiscard]] Digest oms_root(const std::vector<FileDigest>& files);

}  // namespace verbatim::local_engine
