#pragma once
// The identity of a model: digests of its files. cli.md, "model fingerprint".

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace verbatim::local_engine {

struct FileDigest {
  std::string name;  ///< relative, '/' separated
  std::uint64_t size = 0;
  Digest sha256;
};

struct Fingerprint {
  Digest manifest_sha256;  ///< SHA-256 of the JCS of `files`, sorted by name
  Digest weights_sha256;   ///< only what a replay uses: config, tensors, tokenizer, template
  Digest dirhash1;         ///< in-toto dirHash1 over `files`
  Digest oms_root;         ///< OpenSSF Model Signing v1.0 root digest
  std::vector<FileDigest> files;
  std::string architecture;
  std::uint64_t parameters = 0;
  std::string dtype;
  Digest config_sha256;         ///< of what the architecture's keys say
  Digest tensors_sha256;        ///< of names, types, shapes and bytes
  Digest tokenizer_sha256;      ///< zero when the model has none
  Digest chat_template_sha256;  ///< zero when the model has none
};

/// Hashes every file. `not_found`, `invalid_input` (a symlink out of the folder, a name with a
/// newline, an empty folder), `storage_failed`.
[[nodiscard]] Result<Fingerprint> fingerprint(const std::filesystem::path& path);

}  // namespace verbatim::local_engine
