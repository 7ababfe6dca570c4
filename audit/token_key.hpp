#pragma once
// A log's key in a PKCS#11 token: Ed25519 by CKM_EDDSA (PKCS#11 v3.0 section 2.3.14).

#include "audit/log_key.hpp"
#include "audit/pkcs11_uri.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace verbatim::audit {

/// One session with the token, used by one thread at a time: sign() takes turns. The PIN is read when there is a login, and
/// forgotten right after it.
///
/// A session that ended (the token was taken out, or is a network's) is begun again by the next sign(). A PIN that
/// the token refused is never sent again by this object, and none is sent where one more mistake would lock the token.
class TokenKey final : public LogKey {
 public:
  /// The key that the URI names, under this name. Errors: `invalid_input` (no such module, the PIN is wrong or cannot be
  /// read, two tokens or two keys match), `not_found` (no such key), `unsupported` (it is no Ed25519 key),
  /// `storage_failed` (no such token, or it does not work).
  [[nodiscard]] static Result<std::unique_ptr<TokenKey>> open(const Pkcs11Uri& uri,
                                                              const std::string& name);
  ~TokenKey() override;

  [[nodiscard]] const VerifierKey& verifier() const override { return verifier_; }
  [[nodiscard]] bool in_token() const override { return true; }
  /// What the token gives is verified before anyone sees it.
  [[nodiscard]] Result<Ed25519Signature> sign(Bytes message) override;

 private:
  class Connection;
  TokenKey(Pkcs11Uri uri, std::unique_ptr<Connection> connection, VerifierKey verifier);
  [[nodiscard]] Result<Ed25519Signature> sign_now(Bytes message);
  [[nodiscard]] Result<void> connect_again();

  const Pkcs11Uri uri_;
  const VerifierKey verifier_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Connection> connection_;
  std::optional<Error> pin_refused_;
};

}  // namespace verbatim::audit
