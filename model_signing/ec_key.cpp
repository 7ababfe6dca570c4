#include "model_signing/ec_key.hpp"

#include "schema/digest.hpp"
#include "schema/file.hpp"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>
#include <utility>

namespace verbatim::model_signing {

namespace {

constexpr std::uint64_t kPemBytesMax = 64 << 10;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

/// OpenSSL's own would ask on the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Bio reader_of(std::string_view pem) {
  // It takes no null, which a view of nothing has.
  Bio bio(BIO_new_mem_buf(pem.empty() ? "" : pem.data(), static_cast<int>(pem.size())));
  VERBATIM_CHECK(bio != nullptr);
  return bio;
}

std::string text_parameter(EVP_PKEY* key, const char* name) {
  std::array<char, 80> text{};
  std::size_t size = 0;
  if (EVP_PKEY_get_utf8_string_param(key, name, text.data(), text.size(), &size) != 1) return "";
  return {text.data(), size};
}

/// The bits of the curve's order; 0 for what Model Signing has no method for.
int supported_bits(EVP_PKEY* key) {
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) return 0;
  // A curve that is written out could be any, and the key's PEM text would be another.
  if (text_parameter(key, OSSL_PKEY_PARAM_EC_ENCODING) != OSSL_PKEY_EC_ENCODING_GROUP) return 0;
  const std::string group = text_parameter(key, OSSL_PKEY_PARAM_GROUP_NAME);
  return group == "prime256v1" ? 256 : group == "secp384r1" ? 384 : group == "secp521r1" ? 521 : 0;
}

const EVP_MD* digest_of(int bits) {
  return bits == 256 ? EVP_sha256() : bits == 384 ? EVP_sha384() : EVP_sha512();
}

Error unsupported_kind() {
  return {Errc::unsupported, "the key is on none of the curves P-256, P-384 and P-521", "",
          "make one with: openssl ecparam -name prime256v1 -genkey -noout -out KEY.pem"};
}

Result<std::shared_ptr<EVP_PKEY>> parse_private(std::string_view pem) {
  bool encrypted = false;
  std::shared_ptr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, no_passphrase, &encrypted), FreeKey{});
  ERR_clear_error();
  if (encrypted) {
    return Error{
        Errc::unsupported, "the key is encrypted", "",
        "decrypt it with openssl pkey into a file of mode 600, and delete that afterwards"};
  }
  if (!key) {
    return Error{Errc::invalid_input, "no private key in PEM", "",
                 "make one with: openssl ecparam -name prime256v1 -genkey -noout -out KEY.pem"};
  }
  return key;
}

}  // namespace

EcPublicKey::EcPublicKey(std::shared_ptr<EVP_PKEY> key, int bits)
    : key_(std::move(key)), bits_(bits) {
  // Another signer may have written the point compressed; the hint is over the usual form.
  VERBATIM_CHECK(EVP_PKEY_set_utf8_string_param(
                     key_.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed") == 1);
  const Bio pem(BIO_new(BIO_s_mem()));
  VERBATIM_CHECK(pem != nullptr && PEM_write_bio_PUBKEY(pem.get(), key_.get()) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(pem.get(), &text);
  hint_ = sha256(std::string_view(text, static_cast<std::size_t>(size))).hex();
}

Result<EcPublicKey> EcPublicKey::parse(std::string_view pem) {
  bool encrypted = false;
  std::shared_ptr<EVP_PKEY> key;
  if (pem.size() <= kPemBytesMax) {
    key.reset(PEM_read_bio_PUBKEY(reader_of(pem).get(), nullptr, no_passphrase, &encrypted),
              FreeKey{});
    ERR_clear_error();
  }
  if (!key) {
    return Error{Errc::invalid_input, "no public key in PEM", "",
                 "openssl pkey -in KEY.pem -pubout writes that of a private key"};
  }
  const int bits = supported_bits(key.get());
  if (bits == 0) return unsupported_kind();
  return EcPublicKey(std::move(key), bits);
}

const char* EcPublicKey::curve() const {
  return bits_ == 256 ? "P-256" : bits_ == 384 ? "P-384" : "P-521";
}

bool EcPublicKey::verify(Bytes message, Bytes signature) const {
  const Context context(EVP_MD_CTX_new());
  const bool well =
      EVP_DigestVerifyInit(context.get(), nullptr, digest_of(bits_), nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(),
                       message.size()) == 1;
  ERR_clear_error();
  return well;
}

Result<EcPrivateKey> EcPrivateKey::read(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    return Error{Errc::invalid_input, "others than its owner have access to the key", file.string(),
                 "chmod 600 it, and ask whether somebody has read it"};
  }
  auto pem = read_file(file, kPemBytesMax);
  if (!pem) return pem.error();
  auto key = parse_private(*pem);
  OPENSSL_cleanse(pem->data(), pem->size());
  const int bits = key ? supported_bits(key->get()) : 0;
  if (key && bits != 0) return EcPrivateKey(EcPublicKey(std::move(*key), bits));
  Error error = key ? unsupported_kind() : key.error();
  error.where = file.string();
  return error;
}

ByteVector EcPrivateKey::sign(Bytes message) const {
  const Context context(EVP_MD_CTX_new());
  EVP_PKEY* const key = public_key_.key_.get();
  std::size_t size = 0;
  VERBATIM_CHECK(
      EVP_DigestSignInit(context.get(), nullptr, digest_of(public_key_.bits_), nullptr, key) == 1);
  VERBATIM_CHECK(EVP_DigestSign(context.get(), nullptr, &size, message.data(), message.size()) ==
                 1);
  ByteVector signature(size);
  VERBATIM_CHECK(
      EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) == 1);
  signature.resize(size);
  return signature;
}

}  // namespace verbatim::model_signing
