#pragma once
// Keys that are made for a test, as files of PEM, by OpenSSL itself.

#include "model_signing/ec_key.hpp"
#include "tests/support/shared.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace verbatim::model_signing::test {

using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

inline KeyPointer generate(const char* curve) { return {EVP_EC_gen(curve), EVP_PKEY_free}; }

/// Mode 600. `passphrase` may be null.
inline std::filesystem::path write_private(EVP_PKEY* key, const std::filesystem::path& path,
                                           const char* passphrase = nullptr) {
  FILE* const file = std::fopen(path.c_str(), "w");
  EXPECT_EQ(
      PEM_write_PKCS8PrivateKey(file, key, passphrase != nullptr ? EVP_aes_256_cbc() : nullptr,
                                nullptr, 0, nullptr, const_cast<char*>(passphrase)),
      1);
  std::fclose(file);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  return path;
}

inline std::string public_pem(EVP_PKEY* key) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  EXPECT_EQ(PEM_write_bio_PUBKEY(bio.get(), key), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

/// A new key, by way of its file.
inline EcPrivateKey new_key(const char* curve = "P-256") {
  const auto path = verbatim::test::process_dir() / "key.pem";
  std::filesystem::create_directories(path.parent_path());
  auto key = EcPrivateKey::read(write_private(generate(curve).get(), path)).value();
  std::filesystem::remove(path);
  return key;
}

}  // namespace verbatim::model_signing::test
