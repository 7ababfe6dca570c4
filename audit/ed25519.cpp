#include "audit/ed25519.hpp"

#include <openssl/evp.h>

namespace verbatim::audit {

namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

}  // namespace

Ed25519PrivateKey::Ed25519PrivateKey(const Ed25519Seed& seed)
    : key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()),
           FreeKey{}) {
  VERBATIM_CHECK(key_ != nullptr);
  std::size_t size = public_key_.size();
  VERBATIM_CHECK(EVP_PKEY_get_raw_public_key(key_.get(), public_key_.data(), &size) == 1);
}

Ed25519Signature Ed25519PrivateKey::sign(Bytes message) const {
  const Context context(EVP_MD_CTX_new());
  Ed25519Signature signature{};
  std::size_t size = signature.size();
  VERBATIM_CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
  VERBATIM_CHECK(
      EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) == 1);
  return signature;
}

bool ed25519_verify(Bytes key, Bytes message, Bytes signature) {
  if (key.size() != 32 || signature.size() != 64) return false;
  const std::unique_ptr<EVP_PKEY, FreeKey> public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  if (!public_key) return false;
  const Context context(EVP_MD_CTX_new());
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) != 1) {
    return false;
  }
  return EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(),
                          message.size()) == 1;
}

}  // namespace verbatim::audit
