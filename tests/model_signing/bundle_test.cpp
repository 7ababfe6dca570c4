// The file that holds a signature: the official vectors of Model Signing v1.0, and bundles of our own that were changed.

#include "model_signing/bundle.hpp"

#include "audit/dsse.hpp"
#include "model_signing/statement.hpp"
#include "schema/file.hpp"
#include "tests/model_signing/keys.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace verbatim::model_signing::test {
namespace {

constexpr const char* kVectors = "data/vectors/audit/oms/test-vectors/v1.0";

/// The key of the vectors: recovered from the signature in key.bundle.json. The hint there is of this text.
constexpr std::string_view kVectorKey =
    "-----BEGIN PUBLIC KEY-----\n"
    "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEsu6rZGBTjxtvRWPMixT+3HyndV0J0Ybt\n"
    "aHZUcO4DEK+OJHO/4e32bb/fbJKSpRgcBsIpKLcVijUomyFOERbd7u+BTPSUjGZD\n"
    "Qq6J7lTvp/EAXQGOKxW9RP0MGX3qAkvi\n"
    "-----END PUBLIC KEY-----\n";

std::string text_of(const std::filesystem::path& path) { return read_file(path, 1 << 20).value(); }

Json our_bundle(const EcPrivateKey& key, std::string_view statement = "{}") {
  return Json::parse(sign_statement(statement, key));
}

std::string kind_of(const std::string& text) {
  const auto read = read_bundle(text);
  return read ? "" : read.error().kind;
}

TEST(BundleTest, TheVectorsByAKeyAreOpenedByThatKeyAlone) {
  VERBATIM_NEED_SHARED(vectors, kVectors);
  const auto key = EcPublicKey::parse(kVectorKey).value();
  const auto bundle = read_bundle(text_of(vectors / "valid/key.bundle.json"));
  ASSERT_TRUE(bundle) << bundle.error().detail;
  EXPECT_EQ(bundle->method, Bundle::Method::key);
  EXPECT_EQ(bundle->hint, key.hint());
  const auto payload = open_bundle(*bundle, key);
  ASSERT_TRUE(payload) << payload.error().detail;
  const auto statement = read_statement(*payload);
  ASSERT_TRUE(statement) << statement.error().detail;
  EXPECT_EQ(root_of(statement->resources).hex(),
            "92745110b1ab4368471cbe31664e10174e954b113a3df333db860317b2c6dec4");
  EXPECT_EQ(statement->ignore_paths.size(), 5u);
  EXPECT_EQ(open_bundle(*bundle, new_key("P-384").public_key()).error().kind, "other_key");
}

TEST(BundleTest, TheOtherValidVectorsAreWellFormedAndNotOpenedByAKey) {
  VERBATIM_NEED_SHARED(vectors, kVectors);
  const auto key = EcPublicKey::parse(kVectorKey).value();
  for (const auto& [name, method] : {std::pair("certificate", Bundle::Method::certificate),
                                     std::pair("sigstore", Bundle::Method::sigstore)}) {
    const auto bundle =
        read_bundle(text_of(vectors / "valid" / (std::string(name) + ".bundle.json")));
    ASSERT_TRUE(bundle) << name << ": " << bundle.error().detail;
    EXPECT_EQ(bundle->method, method);
    EXPECT_TRUE(read_statement(bundle->payload)) << name;
    EXPECT_EQ(open_bundle(*bundle, key).error().kind, "unsupported");
  }
}

TEST(BundleTest, TheInvalidVectorsAreRefused) {
  VERBATIM_NEED_SHARED(vectors, kVectors);
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(vectors / "invalid")) {
    EXPECT_EQ(kind_of(text_of(entry.path())), "bundle") << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4u);
  const auto bundle = read_bundle(text_of(vectors / "invalid-payload/wrong-predicate.bundle.json"));
  ASSERT_TRUE(bundle) << bundle.error().detail;
  EXPECT_EQ(read_statement(bundle->payload).error().kind, "predicate_type");
  // Its signature is another statement's.
  EXPECT_EQ(open_bundle(*bundle, EcPublicKey::parse(kVectorKey).value()).error().kind, "signature");
}

TEST(BundleTest, OurBundleIsAsTheSchemaSays) {
  const auto key = new_key();
  const Json bundle = our_bundle(key, "{\"a\":1}");
  EXPECT_EQ(bundle["mediaType"], "application/vnd.dev.sigstore.bundle.v0.3+json");
  EXPECT_EQ(
      bundle["verificationMaterial"],
      Json({{"publicKey", {{"hint", key.public_key().hint()}}}, {"tlogEntries", Json::array()}}));
  EXPECT_EQ(bundle["dsseEnvelope"]["payloadType"], "application/vnd.in-toto+json");
  EXPECT_EQ(bundle["dsseEnvelope"]["payload"], to_base64(as_bytes("{\"a\":1}")));
  const auto opened = open_bundle(read_bundle(bundle.dump()).value(), key.public_key());
  ASSERT_TRUE(opened) << opened.error().detail;
  EXPECT_EQ(*opened, "{\"a\":1}");
}

TEST(BundleTest, AChangedStatementOrSignatureIsNotOpened) {
  const auto key = new_key("P-521");
  const auto bundle = read_bundle(our_bundle(key, "{\"a\":1}").dump()).value();
  for (std::size_t at = 0; at < bundle.payload.size(); ++at) {
    auto changed = bundle;
    changed.payload[at] = static_cast<char>(changed.payload[at] ^ 1);
    EXPECT_EQ(open_bundle(changed, key.public_key()).error().kind, "signature");
  }
  auto changed = bundle;
  changed.signature.back() ^= 1;
  EXPECT_EQ(open_bundle(changed, key.public_key()).error().kind, "signature");
  changed.signature.clear();
  EXPECT_EQ(open_bundle(changed, key.public_key()).error().kind, "signature");
  // Whoever puts his own hint there still did not sign.
  changed = bundle;
  const auto other = new_key("P-521");
  changed.hint = other.public_key().hint();
  EXPECT_EQ(open_bundle(changed, key.public_key()).error().kind, "other_key");
  EXPECT_EQ(open_bundle(changed, other.public_key()).error().kind, "signature");
  // Signers before 1.1 wrote no hint: the key alone decides.
  changed = bundle;
  changed.hint = "";
  EXPECT_TRUE(open_bundle(changed, key.public_key()));
  EXPECT_EQ(open_bundle(changed, other.public_key()).error().kind, "signature");
}

TEST(BundleTest, TheSignatureIsOverTheTypeToo) {
  const auto key = new_key();
  Json bundle = our_bundle(key);
  bundle["dsseEnvelope"]["payloadType"] = "text/plain";
  EXPECT_EQ(kind_of(bundle.dump()), "envelope");
  const auto over_another_type = key.sign(as_bytes(audit::dsse_pae("text/plain", "{}")));
  bundle = our_bundle(key);
  bundle["dsseEnvelope"]["signatures"][0]["sig"] = to_base64(over_another_type);
  EXPECT_EQ(open_bundle(read_bundle(bundle.dump()).value(), key.public_key()).error().kind,
            "signature");
}

TEST(BundleTest, Base64IsTakenInBothAlphabetsAndNoOtherForm) {
  const auto key = new_key();
  const std::string payload = "\xfb\xff\xbe?";  // "+/+" and "/" in the standard alphabet
  Json bundle = our_bundle(key, payload);
  const auto standard = bundle["dsseEnvelope"]["payload"].get<std::string>();
  ASSERT_EQ(standard, "+/++Pw==");
  for (const auto& [text, taken] :
       {std::pair("+/++Pw==", true), std::pair("-_--Pw==", true), std::pair("+/++Pw", false),
        std::pair("+/++Px==", false), std::pair(" +/++Pw==", false), std::pair("+/++\nPw==", false),
        std::pair("+/++Pw=", false), std::pair("", false), std::pair("!", false)}) {
    bundle["dsseEnvelope"]["payload"] = text;
    const auto read = read_bundle(bundle.dump());
    ASSERT_EQ(read.has_value(), taken) << text;
    if (taken) {
      EXPECT_TRUE(open_bundle(*read, key.public_key())) << text;
    } else {
      EXPECT_EQ(read.error().kind, "envelope");
    }
  }
}

TEST(BundleTest, MembersMustBeWhatTheFormatSays) {
  using Change = std::function<void(Json&)>;
  const auto certificate = Json({{"rawBytes", "AAAA"}});
  const std::vector<std::pair<const char*, Change>> changes{
      {"bundle", [](Json& j) { j["mediaType"] = "application/json"; }},
      {"bundle", [](Json& j) { j["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.4+json"; }},
      {"bundle", [](Json& j) { j.erase("mediaType"); }},
      {"bundle", [](Json& j) { j["messageSignature"] = Json::object(); }},
      {"bundle", [](Json& j) { j.erase("dsseEnvelope"); }},
      {"bundle", [](Json& j) { j.erase("verificationMaterial"); }},
      {"bundle", [](Json& j) { j["verificationMaterial"] = "none"; }},
      {"bundle", [](Json& j) { j["verificationMaterial"].erase("publicKey"); }},
      {"bundle", [](Json& j) { j["verificationMaterial"]["publicKey"] = Json::object(); }},
      {"bundle", [](Json& j) { j["verificationMaterial"]["publicKey"]["hint"] = 1; }},
      {"bundle", [](Json& j) { j["verificationMaterial"]["tlogEntries"] = "none"; }},
      // Who vouches for it must not depend on who reads it.
      {"bundle",
       [&](Json& j) {
         j["verificationMaterial"]["x509CertificateChain"] = {
             {"certificates", Json::array({certificate})}};
       }},
      {"bundle", [&](Json& j) { j["verificationMaterial"]["certificate"] = certificate; }},
      {"bundle",
       [](Json& j) {
         j["verificationMaterial"] = {{"x509CertificateChain", {{"certificates", Json::array()}}}};
       }},
      {"bundle",
       [](Json& j) {
         j["verificationMaterial"] = {{"certificate", Json::object()}};
       }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["payloadType"] = "text/plain"; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"].erase("payloadType"); }},
      {"envelope", [](Json& j) { j["dsseEnvelope"].erase("payload"); }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["payload"] = ""; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["extra"] = 1; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"] = Json::array(); }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"] = "none"; }},
      {"envelope",
       [](Json& j) {
         Json& list = j["dsseEnvelope"]["signatures"];
         list.push_back(Json(list[0]));
       }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"][0].erase("sig"); }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"][0]["sig"] = "?"; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"][0]["keyid"] = 1; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"]["signatures"][0]["extra"] = 1; }},
      {"envelope", [](Json& j) { j["dsseEnvelope"] = "none"; }},
  };
  const auto key = new_key();
  for (const auto& [kind, change] : changes) {
    Json bundle = our_bundle(key);
    change(bundle);
    EXPECT_EQ(kind_of(bundle.dump()), kind) << bundle;
  }
  const std::string text = our_bundle(key).dump();
  for (std::size_t size = 0; size < text.size(); size += 7)
    EXPECT_EQ(kind_of(text.substr(0, size)), "bundle");
  EXPECT_EQ(kind_of(R"({"dsseEnvelope":{},)" + text.substr(1)), "bundle");  // a member twice
  EXPECT_EQ(kind_of(std::string(3'000'000, '[')), "bundle");
}

TEST(BundleTest, WhatOtherSignersWriteIsTaken) {
  const auto key = new_key();
  Json bundle = our_bundle(key);
  for (const Json& id : {Json(nullptr), Json(""), Json("somebody")}) {
    bundle["dsseEnvelope"]["signatures"][0]["keyid"] = id;
    EXPECT_EQ(kind_of(bundle.dump()), "") << id;
  }
  bundle["dsseEnvelope"]["signatures"][0].erase("keyid");
  bundle["verificationMaterial"].erase("tlogEntries");
  bundle["verificationMaterial"]["publicKey"] = {{"rawBytes", "AAAA"},
                                                 {"keyDetails", "PKIX_ECDSA_P256_SHA_256"}};
  const auto read = read_bundle(bundle.dump(2));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_TRUE(open_bundle(*read, key.public_key()));
}

}  // namespace
}  // namespace verbatim::model_signing::test
