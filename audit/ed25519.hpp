#pragma once
// Ed25519 signatures (RFC 8032), by OpenSSL.

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <array>
#include <cstdint>
#include <memory>

typedef struct evp_pkey_st EVP_PKEY;

namespace verbatim::audit {

using Ed25519Seed = std::array<std::uint8_t, 32>;
using Ed25519PublicKey = std::array<std::uint8_t, 32>;
using Ed25519Signature = std::array<std::uint8_t, 64>;

/// A key that signs. Signing is deterministic, and thread-safe.
class Ed25519PrivateKey {
 public:
  explicit Ed25519PrivateKey(const Ed25519Seed& seed);
  [[nodiscard]] const Ed25519PublicKey& public_key() const { return public_key_; }
  [[nodiscard]] Ed25519Signature sign(Bytes message) const;

 private:
  std::shared_ptr<EVP_PKEY> key_;  // shared: copies sign with the same key
  Ed25519PublicKey public_key_{};
};

/// True if `signature` is `key`'s over `message`. False too for a malformed key or signature.
[[nodiscard]] bool ed25519_verify(Bytes key, Bytes message, Bytes signature);

}  // namespace verbatim::audit
