// The keys of model signatures: which are taken, and what they sign.

#include "model_signing/ec_key.hpp"

#include "schema/digest.hpp"
#include "schema/file.hpp"
#include "tests/model_signing/keys.hpp"

#include <gtest/gtest.h>

namespace verbatim::model_signing::test {
namespace {

namespace fs = std::filesystem;
using verbatim::test::fresh_dir;

TEST(EcKeyTest, EachCurveSignsAndItsPublicHalfVerifies) {
  const auto folder = fresh_dir();
  for (const char* curve : {"P-256", "P-384", "P-521"}) {
    const auto made = generate(curve);
    const auto key = EcPrivateKey::read(write_private(made.get(), folder / "key.pem"));
    ASSERT_TRUE(key) << key.error().message();
    const auto other_half = EcPublicKey::parse(public_pem(made.get()));
    ASSERT_TRUE(other_half) << other_half.error().message();
    EXPECT_STREQ(other_half->curve(), curve);
    EXPECT_EQ(other_half->hint(), sha256(public_pem(made.get())).hex());
    EXPECT_EQ(key->public_key().hint(), other_half->hint());
    const auto signature = key->sign(as_bytes("message"));
    EXPECT_TRUE(other_half->verify(as_bytes("message"), signature));
    EXPECT_FALSE(other_half->verify(as_bytes("messagf"), signature));
    EXPECT_FALSE(other_half->verify(as_bytes("message"), Bytes(signature).first(20)));
    EXPECT_FALSE(other_half->verify(as_bytes("message"), {}));
    for (std::size_t at = 0; at < signature.size(); ++at) {
      auto changed = signature;
      changed[at] ^= 1;
      EXPECT_FALSE(other_half->verify(as_bytes("message"), changed)) << curve << ' ' << at;
    }
    EXPECT_FALSE(new_key(curve).public_key().verify(as_bytes("message"), signature));
  }
}

TEST(EcKeyTest, AKeyThatOthersMayReadIsRefused) {
  const auto path = write_private(generate("P-256").get(), fresh_dir() / "key.pem");
  for (const int mode : {0640, 0604, 0620, 0660, 0644}) {
    fs::permissions(path, fs::perms(mode));
    const auto key = EcPrivateKey::read(path);
    ASSERT_FALSE(key) << mode;
    EXPECT_EQ(key.error().code, Errc::invalid_input);
    EXPECT_NE(key.error().message().find("others"), std::string::npos);
  }
  fs::permissions(path, fs::perms(0400));
  EXPECT_TRUE(EcPrivateKey::read(path));
}

TEST(EcKeyTest, AnEncryptedKeyIsRefusedByNameAndNobodyIsAsked) {
  const auto path = write_private(generate("P-256").get(), fresh_dir() / "key.pem", "secret");
  const auto key = EcPrivateKey::read(path);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Errc::unsupported);
  EXPECT_NE(key.error().message().find("encrypted"), std::string::npos);
  EXPECT_EQ(key.error().where, path.string());
}

TEST(EcKeyTest, KeysOfOtherKindsAndCurvesAreRefused) {
  const auto folder = fresh_dir();
  const KeyPointer ed25519(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  const KeyPointer rsa(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048}),
                       EVP_PKEY_free);
  const auto koblitz = generate("secp256k1");
  const auto written_out = generate("P-256");
  ASSERT_EQ(EVP_PKEY_set_utf8_string_param(written_out.get(), OSSL_PKEY_PARAM_EC_ENCODING,
                                           OSSL_PKEY_EC_ENCODING_EXPLICIT),
            1);
  for (EVP_PKEY* key : {ed25519.get(), rsa.get(), koblitz.get(), written_out.get()}) {
    const auto half = EcPublicKey::parse(public_pem(key));
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().code, Errc::unsupported);
    const auto whole = EcPrivateKey::read(write_private(key, folder / "key.pem"));
    ASSERT_FALSE(whole);
    EXPECT_EQ(whole.error().code, Errc::unsupported);
  }
}

TEST(EcKeyTest, APublicKeyIsNoPrivateOneAndNothingElse) {
  const auto folder = fresh_dir();
  const auto made = generate("P-256");
  const auto path = write_private(made.get(), folder / "key.pem");
  const std::string private_pem = read_file(path, 1 << 16).value();
  for (const std::string& text :
       {private_pem, std::string(), std::string("text"), std::string(1 << 17, '-'),
        std::string("-----BEGIN PUBLIC KEY-----\n")}) {
    const auto key = EcPublicKey::parse(text);
    ASSERT_FALSE(key);
    EXPECT_EQ(key.error().code, Errc::invalid_input);
    EXPECT_EQ(key.error().message().find(private_pem.substr(30, 40)), std::string::npos);
  }
  EXPECT_EQ(EcPublicKey::parse({}).error().code, Errc::invalid_input);
  ASSERT_TRUE(write_file(path, "", 0600));
  EXPECT_EQ(EcPrivateKey::read(path).error().code, Errc::invalid_input);
  ASSERT_TRUE(write_file(path, public_pem(made.get()), 0600));
  EXPECT_EQ(EcPrivateKey::read(path).error().code, Errc::invalid_input);
  EXPECT_EQ(EcPrivateKey::read(folder / "absent").error().code, Errc::not_found);
}

TEST(EcKeyTest, TheHintIsOverTheUsualFormOfAKeyThatIsWrittenCompressed) {
  const auto key = generate("P-384");
  const std::string usual = public_pem(key.get());
  ASSERT_EQ(EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
                                           "compressed"),
            1);
  const std::string compressed = public_pem(key.get());
  ASSERT_NE(compressed, usual);
  EXPECT_EQ(EcPublicKey::parse(compressed).value().hint(), sha256(usual).hex());
}

}  // namespace
}  // namespace verbatim::model_signing::test
