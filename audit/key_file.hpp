#pragma once
// The file that says where a log's private keys are: `log.key` in the data folder, mode 0600, one key a line, the newest
// first. A line is one of
//
//   PRIVATE+KEY+<name>+<hex id>+<base64>       a seed, as in note.hpp
//   <vkey> pkcs11:...                          the key with this public half is in a token (audit/pkcs11_uri.hpp)

#include "audit/log_key.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::audit {

struct KeyLine {
  std::string text;  ///< without its newline
  VerifierKey key;
  std::string uri;  ///< of a key in a token; "" for a seed
};

/// At least one. `not_found`, `tampered` (a line is neither), `storage_failed`. Asks no token.
[[nodiscard]] Result<std::vector<KeyLine>> read_key_file(const std::filesystem::path& path);

/// Where a key is to be that a log does not have yet: "" makes a seed, a pkcs11: URI names a key that is in its token.
/// Nothing is written. Errors are TokenKey::open()'s.
[[nodiscard]] Result<KeyLine> new_key(const std::string& origin, const std::string& place);

/// Logs in to the token, if it is in one. `tampered`: the token's key is another than the line says; and TokenKey::open()'s.
[[nodiscard]] Result<std::shared_ptr<LogKey>> open_key(const KeyLine& line);

/// The newest of the log's keys, for other statements than tree heads. Errors as above.
[[nodiscard]] Result<std::shared_ptr<LogKey>> load_log_key(const std::filesystem::path& data_dir);
/// That one of them. Also `unavailable`, if it no longer signs: a newer checkpoint is signed by another.
[[nodiscard]] Result<std::shared_ptr<LogKey>> load_log_key(const std::filesystem::path& data_dir,
                                                           const VerifierKey& key);

}  // namespace verbatim::audit
