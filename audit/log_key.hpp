#pragma once
// A key that signs a log. Its private half is a seed in the data folder, or it is in a PKCS#11 token (audit/token_key.hpp)
// and never leaves it.

#include "audit/note.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::audit {

class LogKey {
 public:
  virtual ~LogKey() = default;
  [[nodiscard]] virtual const VerifierKey& verifier() const = 0;
  [[nodiscard]] virtual bool in_token() const = 0;
  /// A signature that verifier() accepts. Thread-safe. `storage_failed`: none was made now; a later call may succeed.
  [[nodiscard]] virtual Result<Ed25519Signature> sign(Bytes message) = 0;
};

/// In a log's order: the newest first.
using LogKeys = std::vector<std::shared_ptr<LogKey>>;

/// A seed in this process's memory. Signing does not fail.
class SeedKey final : public LogKey {
 public:
  explicit SeedKey(NoteSigningKey key) : key_(std::move(key)), verifier_(key_.verifier()) {}
  [[nodiscard]] const VerifierKey& verifier() const override { return verifier_; }
  [[nodiscard]] bool in_token() const override { return false; }
  [[nodiscard]] Result<Ed25519Signature> sign(Bytes message) override {
    return key_.key.sign(message);
  }

 private:
  NoteSigningKey key_;
  VerifierKey verifier_;
};

/// A note that all of the keys signed, a line for each. `text` as in note.hpp. Errors are sign()'s.
[[nodiscard]] Result<std::string> sign_note(std::string_view text, const LogKeys& keys);

}  // namespace verbatim::audit
