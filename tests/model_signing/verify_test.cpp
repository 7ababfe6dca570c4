// A model is VALID when it is what was signed, and only then.

#include "tests/model_signing/fixture.hpp"

#include <fcntl.h>
#include <sys/stat.h>

namespace verbatim::model_signing::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// echo -n '{}' | b2sum; echo -n 0123456789 | b2sum
constexpr const char* kBlake2bOfBraces =
    "9327a492264ecac0806b031b780241d86cabe38348fe49c4c5a610ee584cfbaa"
    "efd3fdffd1b1b54c9ee225820433a7f902c688b2e123181a56c73b9cbf9cd13f";
constexpr const char* kBlake2bOfDigits =
    "52a092c005b621bd57e501a0aed950a76fefbb00d07aa43dadd6f53402cc2541"
    "3749f0d3c62e8ca0a7dbae344841adea51d53f8b61d969a15d4a6318b576b8ac";

class VerifyTest : public ModelTest {
 protected:
  void SetUp() override {
    ModelTest::SetUp();
    sign();
  }
};

TEST_F(VerifyTest, WhatWasSignedIsValid) {
  const auto report = verify();
  EXPECT_TRUE(report.valid());
  EXPECT_EQ(report.model, "demo");
  EXPECT_EQ(report.files_signed, 3u);
  EXPECT_EQ(report.files_checked, 3u);
  EXPECT_EQ(report.bytes_checked, 112u);
  EXPECT_EQ(report.root, statement()["subject"][0]["digest"]["sha256"]);
}

TEST_F(VerifyTest, TheOfficialVectorIsValidOverItsFiles) {
  VERBATIM_NEED_SHARED(vector, "data/vectors/audit/oms/test-vectors/v1.0/valid/key.bundle.json");
  // The key is recovered from that signature; the hint in the vector is of this text (bundle_test.cpp).
  const auto signer = EcPublicKey::parse(
      "-----BEGIN PUBLIC KEY-----\n"
      "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEsu6rZGBTjxtvRWPMixT+3HyndV0J0Ybt\n"
      "aHZUcO4DEK+OJHO/4e32bb/fbJKSpRgcBsIpKLcVijUomyFOERbd7u+BTPSUjGZD\n"
      "Qq6J7lTvp/EAXQGOKxW9RP0MGX3qAkvi\n"
      "-----END PUBLIC KEY-----\n");
  const fs::path other = folder / "signme";
  fs::create_directory(other);
  std::ofstream(other / "signme-1") << "signme-1\n";
  std::ofstream(other / "signme-2") << "signme-2";
  std::ofstream(other / "ignore-me") << "anything";
  const std::string text = read_file(vector, 1 << 20).value();
  const auto report = verify_model({other, vector, false, {}}, text, *signer);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->valid());
  EXPECT_EQ(report->files_checked, 2u);
  std::ofstream(other / "signme-2") << "signme-3";
  EXPECT_FALSE(verify_model({other, vector, false, {}}, text, *signer)->valid());
}

TEST_F(VerifyTest, EachFileThatIsOtherwiseIsNamed) {
  write("weights.bin", "0123456780");
  write("zz", "");
  fs::remove(model / "config.json");
  EXPECT_THAT(problems(), ElementsAre("missing: config.json", "changed: weights.bin", "extra: zz"));
  write("weights.bin", "01234567890");  // longer
  write("sub/part-1.bin", "");          // cut to nothing
  EXPECT_THAT(problems(), ElementsAre("missing: config.json", "changed: sub/part-1.bin",
                                      "changed: weights.bin", "extra: zz"));
}

TEST_F(VerifyTest, TheBytesAreReadWhateverTheFilesTimesSay) {
  struct stat before {};
  ASSERT_EQ(::stat((model / "weights.bin").c_str(), &before), 0);
  EXPECT_TRUE(verify().valid());
  {
    std::fstream file(model / "weights.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.put('1');
  }
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, (model / "weights.bin").c_str(), times, 0), 0);
  EXPECT_THAT(problems(), ElementsAre("changed: weights.bin"));
}

TEST_F(VerifyTest, AFileThatIsChangedWhileItIsReadIsNoFinding) {
  for (const std::uintmax_t size : {std::uintmax_t{2'000'000}, std::uintmax_t{4'000'000}}) {
    write("large.bin", std::string(3'000'000, 'x'));
    sign();
    // After its first piece: it is the largest, and so the first that is read.
    const auto change = [&, this](std::uint64_t, std::uint64_t) {
      fs::resize_file(model / "large.bin", size);
    };
    const auto report = verify_model({model, signature, false, change}, bundle, key.public_key());
    ASSERT_FALSE(report) << size;
    EXPECT_EQ(report.error().code, Errc::storage_failed);
    EXPECT_NE(report.error().message().find("changed while it was read"), std::string::npos);
    write("large.bin", std::string(3'000'000, 'x'));
    auto with = options();
    with.progress = change;
    EXPECT_EQ(sign_model(with, key).error().code, Errc::storage_failed) << size;
  }
}

TEST_F(VerifyTest, NamesBelongToTheirBytes) {
  // The root digest does not see this: it is over digests alone.
  write("part-a", "same");
  write("part-b", "same");
  write("part-c", "other");
  sign();
  fs::rename(model / "part-a", model / "part-d");
  EXPECT_THAT(problems(), ElementsAre("missing: part-a", "extra: part-d"));
  fs::rename(model / "part-d", model / "part-a");
  fs::rename(model / "part-b", model / "kept");
  fs::rename(model / "part-c", model / "part-b");
  fs::rename(model / "kept", model / "part-c");
  EXPECT_THAT(problems(), ElementsAre("changed: part-b", "changed: part-c"));
  // Two files of the same bytes may change places: nothing else is in any place.
  fs::rename(model / "part-c", model / "kept");
  fs::rename(model / "part-b", model / "part-c");
  fs::rename(model / "part-a", model / "part-b");
  fs::rename(model / "kept", model / "part-a");
  EXPECT_TRUE(verify().valid());
  // Names that differ in case are two names.
  fs::rename(model / "part-a", model / "Part-a");
  EXPECT_THAT(problems(), ElementsAre("extra: Part-a", "missing: part-a"));
}

TEST_F(VerifyTest, UnsignedFilesAreAcceptedOnlyWhenThatIsAsked) {
  write("extra", "x");
  write("sub/extra", "x");
  fs::create_symlink("/etc/passwd", model / "link");
  EXPECT_THAT(problems(), ElementsAre("extra: extra", "extra: link", "extra: sub/extra"));
  const auto report = verify(true);
  EXPECT_TRUE(report.valid());
  EXPECT_THAT(report.unsigned_files, ElementsAre("extra", "link", "sub/extra"));
  fs::remove(model / "config.json");
  EXPECT_THAT(problems(true), ElementsAre("missing: config.json"));
}

TEST_F(VerifyTest, ALinkInPlaceOfAFileIsRefused) {
  fs::rename(model / "weights.bin", folder / "weights.bin");
  fs::create_symlink(folder / "weights.bin", model / "weights.bin");
  EXPECT_THAT(problems(), ElementsAre("refused: a"));  // the same bytes, but elsewhere
  fs::remove(model / "weights.bin");
  fs::rename(folder / "weights.bin", model / "weights.bin");
  fs::rename(model / "sub", folder / "sub");
  fs::create_directory_symlink(folder / "sub", model / "sub");
  EXPECT_THAT(problems(), ElementsAre("extra: sub", "missing: sub/part-1.bin"));
  fs::remove(model / "sub");
  fs::rename(folder / "sub", model / "sub");
  // Inside of the model too, unless the signer allowed it.
  fs::rename(model / "weights.bin", model / "sub" / "part-1.bin.real");
  fs::create_symlink("sub/part-1.bin.real", model / "weights.bin");
  EXPECT_THAT(problems(true), ElementsAre("refused: weights.bin"));
  auto with = options();
  with.allow_symlinks = true;
  sign(with);
  EXPECT_TRUE(verify().valid());
  write("sub/part-1.bin.real", "0123456780");
  EXPECT_THAT(problems(), ElementsAre("changed: sub/part-1.bin.real", "changed: weights.bin"));
  fs::remove(model / "weights.bin");
  std::ofstream(folder / "outside") << "0123456789";
  fs::create_symlink(folder / "outside", model / "weights.bin");
  EXPECT_THAT(problems(), ElementsAre("changed: sub/part-1.bin.real", "refused: a"));
}

TEST_F(VerifyTest, AFileThatIsNoFileAnyMoreIsRefused) {
  fs::remove(model / "weights.bin");
  ASSERT_EQ(::mkfifo((model / "weights.bin").c_str(), 0600), 0);
  EXPECT_THAT(problems(), ElementsAre("refused: neither"));
  fs::remove(model / "weights.bin");
  fs::create_directory(model / "weights.bin");
  EXPECT_THAT(problems(), ElementsAre("missing: weights.bin"));
  write("a\nb", "x");
  EXPECT_THAT(problems().front(), testing::StartsWith("extra: a"));
}

TEST_F(VerifyTest, NothingIsReadUnderASignatureThatIsNotTheKeys) {
  const auto other = new_key();
  auto report = verify_model({folder / "absent", signature, false, {}}, bundle, other.public_key());
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].kind, "other_key");
  EXPECT_EQ(report->files_signed, 0u);
  EXPECT_EQ(report->model, "");
  Json changed = Json::parse(bundle);
  changed["dsseEnvelope"]["payload"] = to_base64(as_bytes("{}"));
  report = verify_model({model, signature, false, {}}, changed.dump(), key.public_key());
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].kind, "signature");
  for (const char* text : {"", "{}", "[]", "model"}) {
    report = verify_model({model, signature, false, {}}, text, key.public_key());
    ASSERT_EQ(report->problems.size(), 1u);
    EXPECT_EQ(report->problems[0].kind, "bundle");
  }
}

TEST_F(VerifyTest, AStatementThatTheKeySignedMustStillBeOne) {
  const Json demo = statement();
  Json json = demo;
  json["predicate"]["resources"][0]["digest"] = std::string(64, '0');
  bundle = sign_statement(json.dump(), key);
  EXPECT_THAT(problems(), ElementsAre("root: the"));
  json = demo;
  json["predicate"]["resources"][0]["name"] = "../demo/config.json";
  sign_instead(json);
  EXPECT_THAT(problems(), ElementsAre("statement: not"));
  json["predicate"]["resources"][0]["name"] = (model / "config.json").string();
  sign_instead(json);
  EXPECT_THAT(problems(), ElementsAre("statement: not"));
  json["predicate"]["resources"][0]["name"] = "weights.bin";
  sign_instead(json);
  EXPECT_THAT(problems(), ElementsAre("statement: the"));
  json = demo;
  json["predicateType"] = "https://example.com/other";
  sign_instead(json);
  EXPECT_THAT(problems(), ElementsAre("predicate_type: no"));
  json = demo;
  json["predicate"]["serialization"]["hash_type"] = "blake3";
  sign_instead(json);
  ASSERT_FALSE(try_verify());
  EXPECT_EQ(try_verify().error().code, Errc::unsupported);
}

TEST_F(VerifyTest, CertificatesAreRefusedByNameWithAdvice) {
  Json json = Json::parse(bundle);
  json["verificationMaterial"] = {
      {"x509CertificateChain", {{"certificates", Json::array({{{"rawBytes", "AAAA"}}})}}}};
  bundle = json.dump();
  const auto report = try_verify();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Errc::unsupported);
  EXPECT_NE(report.error().message().find("certificate"), std::string::npos);
  EXPECT_NE(report.error().message().find("model_signing"), std::string::npos);
}

TEST_F(VerifyTest, WhatTheSignerLeftOutDoesNotHaveToBeThere) {
  for (const char* name : {".git/HEAD", ".gitignore", "cache/x", "model.sig"}) write(name, name);
  signature = model / "model.sig";
  auto with = options();
  with.ignore = {"cache"};
  sign(with);
  EXPECT_TRUE(verify().valid());
  write("cache/y", "y");
  write(".github/y", "y");
  fs::remove(model / ".gitignore");
  EXPECT_TRUE(verify().valid());
  write("sub/cache", "y");
  write("cached", "y");
  EXPECT_THAT(problems(), ElementsAre("extra: cached", "extra: sub/cache"));
}

TEST_F(VerifyTest, OneVerificationLeavesNothingToTheNext) {
  write("cache/x", "x");
  auto with = options();
  with.ignore = {"cache"};
  const std::string strict = bundle;
  sign(with);
  EXPECT_TRUE(verify().valid());
  bundle = strict;  // signed without that path left out
  EXPECT_THAT(problems(), ElementsAre("extra: cache/x"));
  EXPECT_THAT(problems(), ElementsAre("extra: cache/x"));
}

TEST_F(VerifyTest, TheSignatureMayLieInTheModelUnderAnyName) {
  signature = model / "sub" / "renamed.sig";
  ASSERT_TRUE(write_file(signature, bundle));
  EXPECT_TRUE(verify().valid());
  signature = folder / "model.sig";
  EXPECT_THAT(problems(), ElementsAre("extra: sub/renamed.sig"));
  // But not in the place of a signed file.
  signature = model / "weights.bin";
  ASSERT_TRUE(write_file(signature, bundle));
  EXPECT_THAT(problems(), ElementsAre("extra: sub/renamed.sig", "changed: weights.bin"));
}

TEST_F(VerifyTest, WhatIsSignedIsCheckedWhereverItIs) {
  write(".git/HEAD", "main");
  Json json = statement();
  json["predicate"]["serialization"]["ignore_paths"] = {"sub"};  // and sub/part-1.bin is signed
  Json& resources = json["predicate"]["resources"];
  resources.push_back(
      {{"name", ".git/HEAD"}, {"algorithm", "sha256"}, {"digest", sha256("main").hex()}});
  sign_instead(json);
  EXPECT_TRUE(verify().valid());
  EXPECT_EQ(verify().files_checked, 4u);
  write(".git/HEAD", "evil");
  write(".git/config", "not signed, and left out by everyone");
  write("sub/part-1.bin", "evil");
  EXPECT_THAT(problems(), ElementsAre("changed: .git/HEAD", "changed: sub/part-1.bin"));
}

TEST_F(VerifyTest, EmptyFilesCount) {
  write("empty", "");
  sign();
  EXPECT_TRUE(verify().valid());
  fs::remove(model / "empty");
  EXPECT_THAT(problems(), ElementsAre("missing: empty"));
  write("empty", "x");
  EXPECT_THAT(problems(), ElementsAre("changed: empty"));
}

TEST_F(VerifyTest, AModelMayBeOneFile) {
  auto with = options();
  with.model = model / "weights.bin";
  sign(with);
  const auto check = [this](const char* name) {
    return verify_model({model / name, signature, false, {}}, bundle, key.public_key()).value();
  };
  EXPECT_TRUE(check("weights.bin").valid());
  fs::rename(model / "weights.bin", model / "other.bin");
  EXPECT_EQ(check("other.bin").problems.size(), 2u);  // extra, and missing: its name was signed
  // Some signers have no name for it.
  Json json = statement();
  json["predicate"]["resources"][0]["name"] = ".";
  sign_instead(json);
  EXPECT_TRUE(check("other.bin").valid());
  EXPECT_FALSE(check("config.json").valid());
  EXPECT_FALSE(verify().valid());  // the folder is not that file
}

TEST_F(VerifyTest, Blake2bIsChecked) {
  Json json = statement();
  json["predicate"]["serialization"]["hash_type"] = "blake2b";
  for (Json& resource : json["predicate"]["resources"]) resource["algorithm"] = "blake2b";
  Json& resources = json["predicate"]["resources"];
  resources.erase(resources.begin() + 1);
  resources[0]["digest"] = kBlake2bOfBraces;
  resources[1]["digest"] = kBlake2bOfDigits;
  sign_instead(json);
  EXPECT_THAT(problems(), ElementsAre("extra: sub/part-1.bin"));
  write("config.json", "{ }");
  EXPECT_THAT(problems(), ElementsAre("changed: config.json", "extra: sub/part-1.bin"));
}

class ShardTest : public ModelTest {
 protected:
  void SetUp() override {
    ModelTest::SetUp();
    write("empty", "");
    sign();
    Json json = statement();
    json["predicate"]["serialization"]["method"] = "shards";
    json["predicate"]["serialization"]["shard_size"] = 64;
    json["predicate"]["resources"] = Json::array(
        {shard("config.json", 0, "{}"), shard("empty", 0, ""),
         shard("sub/part-1.bin", 0, std::string(64, 'a')),
         shard("sub/part-1.bin", 64, std::string(36, 'a')), shard("weights.bin", 0, "0123456789")});
    sign_instead(json);
  }
  static Json shard(const std::string& name, std::size_t start, const std::string& bytes) {
    const std::string range =
        ":" + std::to_string(start) + ":" + std::to_string(start + bytes.size());
    return {{"name", name + range}, {"algorithm", "sha256"}, {"digest", sha256(bytes).hex()}};
  }
};

TEST_F(ShardTest, ShardsOfAModelAreChecked) {
  const auto report = verify();
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_EQ(report.files_signed, 4u);
  EXPECT_EQ(report.files_checked, 4u);
  EXPECT_EQ(report.bytes_checked, 112u);
}

TEST_F(ShardTest, AChangeIsSaidOfItsShardAndASizeOfItsFile) {
  write("sub/part-1.bin", std::string(80, 'a') + std::string(20, 'b'));
  ASSERT_THAT(problems(), ElementsAre("changed: sub/part-1.bin"));
  EXPECT_NE(verify().problems[0].detail.find("from 64 to 100"), std::string::npos);
  write("sub/part-1.bin", std::string(64, 'a'));  // the last shard is gone
  EXPECT_THAT(problems(), ElementsAre("size: sub/part-1.bin"));
  write("sub/part-1.bin", std::string(101, 'a'));  // bytes after the last shard
  EXPECT_THAT(problems(), ElementsAre("size: sub/part-1.bin"));
  write("sub/part-1.bin", std::string(100, 'a'));
  write("empty", "x");
  write("extra", "");
  EXPECT_THAT(problems(), ElementsAre("size: empty", "extra: extra"));
}

}  // namespace
}  // namespace verbatim::model_signing::test
