#include "audit/aead.hpp"

#include "schema/digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <climits>

namespace verbatim::audit {

namespace {

constexpr std::size_t kNonce = 12;
constexpr std::size_t kTag = 16;

// Fetched once: in OpenSSL 3 the lookup costs more than encrypting a small text.
const EVP_CIPHER* method() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return cipher;
}

/// OpenSSL counts in int: larger texts go in pieces.
template <class Update>
bool in_pieces(Bytes bytes, std::uint8_t* out, Update&& update) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1u << 30);
    int done = 0;
    if (update(out, &done, bytes.data(), static_cast<int>(size)) != 1) return false;
    if (out != nullptr) out += size;
    bytes = bytes.subspan(size);
  }
  return true;
}

}  // namespace

// The method is set once: setting it again with each key would make the context anew.
Aead::Aead()
    : sealing_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free),
      opening_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
  VERBATIM_CHECK(sealing_ != nullptr && opening_ != nullptr && method() != nullptr);
  VERBATIM_CHECK(EVP_EncryptInit_ex(sealing_.get(), method(), nullptr, nullptr, nullptr) == 1);
  VERBATIM_CHECK(EVP_DecryptInit_ex(opening_.get(), method(), nullptr, nullptr, nullptr) == 1);
}

std::string Aead::seal(const SymmetricKey& key, std::initializer_list<Bytes> pieces,
                       Bytes associated) {
  EVP_CIPHER_CTX* const c = sealing_.get();
  std::size_t size = 0;
  for (const Bytes piece : pieces) size += piece.size();
  std::string sealed(kNonce + size + kTag, '\0');
  auto* at = reinterpret_cast<std::uint8_t*>(sealed.data());
  fill_random({at, kNonce});
  const auto update = [c](std::uint8_t* out, int* done, const std::uint8_t* in, int n) {
    return EVP_EncryptUpdate(c, out, done, in, n);
  };
  VERBATIM_CHECK(EVP_EncryptInit_ex(c, nullptr, nullptr, key.data(), at) == 1);
  VERBATIM_CHECK(in_pieces(associated, nullptr, update));
  at += kNonce;
  for (const Bytes piece : pieces) {
    VERBATIM_CHECK(in_pieces(piece, at, update));
    at += piece.size();
  }
  int done = 0;
  VERBATIM_CHECK(EVP_EncryptFinal_ex(c, at, &done) == 1 && done == 0);
  VERBATIM_CHECK(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, kTag, at) == 1);
  return sealed;
}

Result<std::string> Aead::open(const SymmetricKey& key, Bytes sealed, Bytes associated) {
  const Error wrong{Errc::tampered, "the sealed bytes do not open with their key", "", ""};
  if (sealed.size() < kSealOverhead) return wrong;
  EVP_CIPHER_CTX* const c = opening_.get();
  const auto update = [c](std::uint8_t* out, int* done, const std::uint8_t* in, int n) {
    return EVP_DecryptUpdate(c, out, done, in, n);
  };
  const Bytes body = sealed.subspan(kNonce, sealed.size() - kSealOverhead);
  std::array<std::uint8_t, kTag> tag;
  std::copy(sealed.end() - kTag, sealed.end(), tag.begin());
  std::string text(body.size(), '\0');
  VERBATIM_CHECK(EVP_DecryptInit_ex(c, nullptr, nullptr, key.data(), sealed.data()) == 1);
  VERBATIM_CHECK(in_pieces(associated, nullptr, update));
  if (!in_pieces(body, reinterpret_cast<std::uint8_t*>(text.data()), update)) return wrong;
  VERBATIM_CHECK(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, kTag, tag.data()) == 1);
  int done = 0;
  if (EVP_DecryptFinal_ex(c, reinterpret_cast<std::uint8_t*>(text.data()) + text.size(), &done) !=
      1) {
    return wrong;
  }
  return text;
}

}  // namespace verbatim::audit
