#pragma once
// The keys of Model Signing's method "key": elliptic curves P-256, P-384 and P-521, in PEM; ECDSA over SHA-256, SHA-384
// and SHA-512 in this order, signatures in DER. By OpenSSL.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

typedef struct evp_pkey_st EVP_PKEY;

namespace verbatim::model_signing {

class EcPublicKey {
 public:
  /// "-----BEGIN PUBLIC KEY-----" (RFC 5480). `invalid_input`: none, or a private key or a certificate in its place;
  /// `unsupported`: of another kind or curve.
  [[nodiscard]] static Result<EcPublicKey> parse(std::string_view pem);

  /// What a bundle names the key by: SHA-256 of its PEM text, in hexadecimal.
  [[nodiscard]] const std::string& hint() const { return hint_; }
  /// "P-256", "P-384" or "P-521".
  [[nodiscard]] const char* curve() const;
  /// True if `signature` is this key's over `message`. False too for a malformed one.
  [[nodiscard]] bool verify(Bytes message, Bytes signature) const;

 private:
  friend class EcPrivateKey;
  EcPublicKey(std::shared_ptr<EVP_PKEY> key, int bits);

  std::shared_ptr<EVP_PKEY> key_;  // shared: copies verify with the same key
  int bits_;
  std::string hint_;
};

class EcPrivateKey {
 public:
  /// "-----BEGIN PRIVATE KEY-----" or "-----BEGIN EC PRIVATE KEY-----". `invalid_input`: no such key, or a file that others
  /// than its owner may read; `unsupported`: an encrypted key (nobody is asked for a passphrase), or one of another kind or
  /// curve; read_file()'s.
  [[nodiscard]] static Result<EcPrivateKey> read(const std::filesystem::path& file);

  [[nodiscard]] const EcPublicKey& public_key() const { return public_key_; }
  /// With a random nonce: two signatures of the same message differ.
  [[nodiscard]] ByteVector sign(Bytes message) const;

 private:
  explicit EcPrivateKey(EcPublicKey key) : public_key_(std::move(key)) {}

  EcPublicKey public_key_;  // its key_ has the private half
};

}  // namespace verbatim::model_signing
