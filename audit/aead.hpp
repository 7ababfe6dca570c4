#pragma once
// AES-256-GCM (NIST SP 800-38D), by OpenSSL. A sealed text is: nonce (12 bytes, random), ciphertext, tag (16).

#include "schema/bytes.hpp"
#include "schema/error.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

typedef struct evp_cipher_ctx_st EVP_CIPHER_CTX;

namespace verbatim::audit {

using SymmetricKey = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kSealOverhead = 12 + 16;

/// Reuses its cipher contexts: one thread at a time.
class Aead {
 public:
  Aead();

  /// Encrypts the pieces one after another. A key may seal 2^32 texts at most: nonces are random.
  [[nodiscard]] std::string seal(const SymmetricKey& key, std::initializer_list<Bytes> pieces,
                                 Bytes associated);
  /// `tampered` if the text, the key or the associated data is not what was sealed.
  [[nodiscard]] Result<std::string> open(const SymmetricKey& key, Bytes sealed, Bytes associated);

 private:
  using Context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;
  Context sealing_, opening_;
};

}  // namespace verbatim::audit
