#pragma once
// The statement that is signed: which bytes a model is made of. An in-toto Statement v1 with the predicate of OpenSSF Model
// Signing v1.0:
//
//   {"_type": "https://in-toto.io/Statement/v1",
//    "subject": [{"name": "demo", "digest": {"sha256": <root>}}],
//    "predicateType": "https://model_signing/signature/v1.0",
//    "predicate": {
//      "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": false, "ignore_paths": [".git", ...]},
//      "resources": [{"name": "config.json", "algorithm": "sha256", "digest": <hexadecimal>}, ...]}}
//
// The method "shards" has "shard_size" too, and names resources FILE:START:END. The root is the SHA-256 of the resources'
// digests one after another. It does not bind their names; the signature does.

#include "model_signing/problem.hpp"
#include "schema/digest.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::model_signing {

enum class Method { files, shards };
enum class Hash { sha256, blake2b };

/// "sha256" or "blake2b" (with 64 bytes of digest).
[[nodiscard]] const char* hash_name(Hash hash);

/// What some signers call the file of a model that is a single one.
inline constexpr std::string_view kTheOnlyFile = ".";

/// A file, or with Method::shards a part of one.
struct Resource {
  std::string file;         ///< relative, '/' separated; or kTheOnlyFile
  std::string digest;       ///< lower-case hexadecimal
  std::uint64_t start = 0;  ///< shards: the first byte, and the one after the last
  std::uint64_t end = 0;
};

struct Statement {
  std::string model;  ///< the signer's name for it: says nothing
  Method method = Method::files;
  Hash hash = Hash::sha256;
  std::uint64_t shard_size = 0;  ///< 0 with Method::files
  bool allow_symlinks = false;
  std::vector<std::string> ignore_paths;
  std::vector<Resource> resources;  ///< in the statement's own order; no byte is in two
};

/// SHA-256 over the resources' digests in their order.
[[nodiscard]] Digest root_of(const std::vector<Resource>& resources);

/// True for what may be the name of a file below a folder: relative, no empty, "." or ".." part, no newline.
[[nodiscard]] bool is_plain_name(std::string_view name);

/// Canonical JSON, of a statement with Method::files.
[[nodiscard]] std::string write_statement(const Statement& statement);

/// Reads what a key has signed; takes members beside those above where the format allows them, and resources in any order.
/// Problems: `statement`, `predicate_type`, `root`; `unsupported` for a hash or a method that is not done here.
[[nodiscard]] Checked<Statement> read_statement(std::string_view payload);

}  // namespace verbatim::model_signing
