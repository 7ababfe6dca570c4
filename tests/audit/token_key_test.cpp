// A log whose key is in a PKCS#11 token: SoftHSM's, and one that fails as it is told to.

#include "audit/token_key.hpp"

#include "audit/export.hpp"
#include "audit/key_rotator.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"
#include "tests/audit/soft_tokens.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <thread>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

class TokenKeyTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    if (!SoftTokens::are_there()) GTEST_SKIP() << "SKIPPED: needs Debian's softhsm2 and opensc";
    tokens.emplace(folder.string() + ".other");
    tokens->init("audit");
    tokens->make_key("audit", "one", "01");
    key = tokens->uri("audit", "one");
  }
  void open_with(const std::string& uri) {
    LogOptions with = options();
    with.key = uri;
    log = Log::open(with, clock).value();
  }
  [[nodiscard]] Error refused(const std::string& uri) const {
    const auto parsed = parse_pkcs11_uri(uri).value();
    auto opened = TokenKey::open(parsed, "log.example/test");
    return opened ? Error{} : opened.error();
  }
  Result<Appended> rotate(const std::string& to) {
    return log->append_and_wait(rotate_key("yearly", "tester", to));
  }
  Result<Appended> retire() { return log->append_and_wait(retire_key("over", "tester")); }
  [[nodiscard]] std::string key_file() const { return read_file(folder / "log.key", 4096).value(); }
  /// By our verifier, and as a bundle by ours and by the script in it.
  void expect_valid() const {
    EXPECT_EQ(verdict_name(verified().verdict), "VALID");
    ExportOptions with;
    with.out = folder.string() + ".bundle";
    fs::remove_all(with.out);
    const fs::path script = VERBATIM_SOURCE_DIR "/audit/evidence/verify.py";
    with.extra_files = {{"verify.py", read_file(script, 1 << 20).value()}};
    ASSERT_TRUE(export_evidence(*reader(), with));
    EXPECT_EQ(verify(with.out, {})->verdict, Verdict::valid);
    const std::string run = "'" VERBATIM_PYTHON "' -B '" + (with.out / "verify.py").string() +
                            "' --key '" + reader()->vkey() + "' > /dev/null";
    EXPECT_EQ(std::system(run.c_str()), 0);
  }

  std::optional<SoftTokens> tokens;
  std::string key;
};

TEST_F(TokenKeyTest, ALogIsMadeAndGoesOnWithAKeyInAToken) {
  open_with(key);
  exchange();
  const std::string vkey = log->vkey();
  EXPECT_EQ(key_file(), vkey + " " + key + "\n");
  close();
  open();  // whoever opens it later need not be told
  exchange();
  EXPECT_EQ(log->vkey(), vkey);
  EXPECT_EQ(reader()->leaf(0)->json.at("vkey"), vkey);
  expect_valid();
  close();
  expect_valid();
}

TEST_F(TokenKeyTest, TheKeyIsChangedFromAFileToATokenToAnotherTokenAndBack) {
  tokens->init("second");
  tokens->make_key("second", "two", "02");
  open();
  exchange();
  std::vector<std::string> keys{log->vkey()};
  for (const std::string& to : {key, tokens->uri("second", "two"), std::string("file")}) {
    ASSERT_TRUE(rotate(to)) << to;
    keys.push_back(log->vkey());
    exchange();
    EXPECT_EQ(parse_note(reader()->checkpoint().value())->signatures.size(), 2u);
    close();
    open();  // both keys are opened in the overlap
    ASSERT_TRUE(retire()) << to;
    exchange();
    EXPECT_EQ(key_file().find(to == "file" ? "PRIVATE+KEY+" : log->vkey() + " pkcs11:"), 0u);
  }
  expect_valid();
  EXPECT_EQ(verified().keys, keys);
  VerifyOptions first;
  first.vkey = keys.front();
  EXPECT_EQ(verified(first).verdict, Verdict::valid);
}

TEST_F(TokenKeyTest, AKeyInATokenIsFollowedByOneInAFileOnlyIfThatIsAskedFor) {
  open_with(key);
  const auto silently = rotate("");
  EXPECT_EQ(silently.error().code, Errc::invalid_input);
  EXPECT_NE(silently.error().advice.find("--to"), std::string::npos);
  EXPECT_TRUE(rotate("file"));
  expect_valid();
}

TEST_F(TokenKeyTest, AKeyThatSignedBeforeDoesNotComeBack) {
  tokens->make_key("audit", "two", "02");
  const std::string second = tokens->uri("audit", "two");
  open_with(key);
  EXPECT_EQ(rotate(key).error().code, Errc::invalid_input);
  ASSERT_TRUE(rotate(second));
  ASSERT_TRUE(retire());
  EXPECT_EQ(rotate(key).error().code, Errc::invalid_input);
  // What is refused changes nothing.
  EXPECT_EQ(rotate(tokens->uri("audit", "none")).error().code, Errc::not_found);
  EXPECT_EQ(rotate("pkcs11:").error().code, Errc::invalid_input);
  EXPECT_FALSE(fs::exists(folder / "log.key.next"));
  exchange();
  expect_valid();
}

TEST_F(TokenKeyTest, ACrashBetweenTheLeafAndTheKeysFileIsMended) {
  open();
  const std::string before = key_file();
  ASSERT_TRUE(rotate(key));
  const std::string both = key_file();
  close();
  ASSERT_TRUE(write_file(folder / "log.key", before, 0600));
  ASSERT_TRUE(write_file(folder / "log.key.next", both.substr(0, both.find('\n') + 1), 0600));
  open();
  EXPECT_EQ(key_file(), both);
  EXPECT_FALSE(fs::exists(folder / "log.key.next"));
  expect_valid();
}

TEST_F(TokenKeyTest, AnOlderKeyWhoseTokenIsLostCanBeLeftOut) {
  open_with(tokens->faulty("audit", "one"));
  const std::string first = log->vkey();
  ASSERT_TRUE(rotate("file"));
  const std::string newest = key_file().substr(0, key_file().find('\n') + 1);
  close();
  tokens->fault("removed");
  EXPECT_EQ(refusal().code, Errc::storage_failed);
  ASSERT_TRUE(write_file(folder / "log.key", newest, 0600));
  open();
  exchange();
  EXPECT_EQ(reader()->leaf(retire().value().index)->json.at("vkey"), first);
  exchange();
  expect_valid();
}

TEST_F(TokenKeyTest, WhatIsWrongWithModuleTokenOrKeyIsNamed) {
  const auto expect = [&](const std::string& uri, Errc code, const std::string& word) {
    const Error error = refused(uri);
    EXPECT_EQ(error.code, code) << uri;
    EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  };
  const fs::path text = folder / "text.so";
  ASSERT_TRUE(write_file(text, "not a library\n"));
  expect(tokens->uri("audit", "one", "/nowhere/m.so"), Errc::invalid_input, "/nowhere/m.so");
  expect(tokens->uri("audit", "one", text.string()), Errc::invalid_input, "not a PKCS#11 module");
  Dl_info library{};  // a library that is no module
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&sqlite3_open), &library), 0);
  expect(tokens->uri("audit", "one", library.dli_fname), Errc::invalid_input, "C_GetFunctionList");
  expect(tokens->uri("other", "one"), Errc::storage_failed, "those that are there: audit");
  expect(tokens->uri("audit", "none"), Errc::not_found, "no such private key");
  tokens->init("audit");
  expect(key, Errc::invalid_input, "2 tokens match");
  tokens->init("more");
  tokens->make_key("more", "p256", "02", "EC:prime256v1");
  expect(tokens->uri("more", "p256"), Errc::unsupported, "not an Ed25519 key");
  tokens->make_key("more", "twice", "03");
  tokens->make_key("more", "twice", "04");
  expect(tokens->uri("more", "twice"), Errc::invalid_input, "more than one private key");
  tokens->make_key("more", "half", "05");
  tokens->drop_public_half("more", "05");
  expect(tokens->uri("more", "half"), Errc::not_found, "public half");
  const std::string by_id =
      "pkcs11:token=more;id=%04?module-path=" VERBATIM_SOFTHSM "&pin-source=env:VERBATIM_TEST_PIN";
  expect(by_id, Errc::invalid_input, "VERBATIM_TEST_PIN");
  ::setenv("VERBATIM_TEST_PIN", kPin, 1);
  EXPECT_EQ(refused(by_id).code, Errc{});
  ::unsetenv("VERBATIM_TEST_PIN");
}

TEST_F(TokenKeyTest, ATokenWithAnotherKeyThanTheLogsIsRefused) {
  open_with(key);
  const std::string vkey = log->vkey();
  close();
  tokens->make_key("audit", "two", "02");
  ASSERT_TRUE(
      write_file(folder / "log.key", vkey + " " + tokens->uri("audit", "two") + "\n", 0600));
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::tampered);
  EXPECT_NE(error.what.find(vkey), std::string::npos);
  ASSERT_TRUE(write_file(folder / "log.key", vkey + " pkcs11:nonsense\n", 0600));
  EXPECT_EQ(refusal().code, Errc::tampered);
  ASSERT_TRUE(write_file(folder / "log.key", vkey + " " + key + "\n", 0600));
  EXPECT_EQ(refusal().code, Errc{});
}

TEST_F(TokenKeyTest, AWrongPinIsTriedOnceAndLeavesNothingBehind) {
  tokens->write_pin("wrong-canary");
  LogOptions with = options();
  with.key = tokens->faulty("audit", "one");
  const auto opened = Log::open(with, clock);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::invalid_input);
  EXPECT_NE(opened.error().what.find("CKR_PIN_INCORRECT"), std::string::npos);
  EXPECT_EQ(opened.error().message().find("canary"), std::string::npos);
  EXPECT_EQ(tokens->logins(), 1u);
  EXPECT_FALSE(fs::exists(folder / "log.key"));
  // Once it is right, the log is made.
  tokens->write_pin(kPin);
  open_with(with.key);
  exchange();
  expect_valid();
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path(), 1 << 26)->find(kPin), std::string::npos) << entry.path();
  }
}

TEST_F(TokenKeyTest, AnExistingLogTriesAWrongPinOnceWhoeverOpensIt) {
  open_with(tokens->faulty("audit", "one"));
  close();
  tokens->write_pin("wrong");
  const std::size_t before = tokens->logins();
  EXPECT_EQ(open_appender(folder, clock).error().code, Errc::invalid_input);
  EXPECT_EQ(tokens->logins(), before + 1);
  EXPECT_EQ(load_log_key(folder).error().code, Errc::invalid_input);
  EXPECT_EQ(tokens->logins(), before + 2);
}

TEST_F(TokenKeyTest, NoPinIsSentThatMightLockTheTokenOrThatOthersCanRead) {
  const std::string faulty = tokens->faulty("audit", "one");
  tokens->fault("final_try");
  EXPECT_EQ(refused(faulty).code, Errc::invalid_input);
  tokens->mend();
  tokens->write_pin(kPin, 0644);
  EXPECT_NE(refused(faulty).message().find("chmod"), std::string::npos);
  tokens->write_pin("");
  EXPECT_EQ(refused(faulty).code, Errc::invalid_input);
  fs::remove(folder.string() + ".other/pin");
  EXPECT_EQ(refused(faulty).code, Errc::invalid_input);
  EXPECT_EQ(tokens->logins(), 0u);
  tokens->write_pin(kPin);
  EXPECT_EQ(refused(faulty).code, Errc{});
  EXPECT_EQ(tokens->logins(), 1u);
}

TEST_F(TokenKeyTest, ATokenThatIsTakenOutLosesNothingAndTheLogGoesOnWhenItIsBack) {
  open_with(tokens->faulty("audit", "one"));
  const Appended asked = exchange();
  const std::uint64_t size = log->stats().leaves;
  tokens->fault("removed");
  for (int i = 0; i < 2; ++i) {
    const auto failed = log->append_and_wait(request("lost"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::storage_failed);
    EXPECT_FALSE(log->healthy());
  }
  EXPECT_EQ(rotate("file").error().code, Errc::storage_failed);
  EXPECT_EQ(verified().size, size);
  EXPECT_EQ(verified().verdict, Verdict::valid);
  tokens->mend();
  const Appended next = exchange();
  EXPECT_TRUE(log->healthy());
  EXPECT_EQ(next.index, size);
  EXPECT_EQ(reader()->leaf(asked.index)->json.at("id"), asked.id.str());
  ASSERT_TRUE(rotate("file"));
  expect_valid();
  close();
  open();
  expect_valid();
}

TEST_F(TokenKeyTest, WhatTheTokenGivesIsNoSignatureUntilItVerifies) {
  open_with(tokens->faulty("audit", "one"));
  exchange();
  const std::uint64_t size = log->stats().leaves;
  for (const char* fault : {"garbage", "short"}) {
    tokens->fault(fault);
    const auto failed = log->append_and_wait(request("lost"));
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().what.find("does not verify"), std::string::npos);
    EXPECT_EQ(verified().size, size);
    ExportOptions with;
    with.out = folder.string() + ".bundle";
    EXPECT_FALSE(export_evidence(*reader(), with));
    fs::remove_all(with.out);
  }
  tokens->mend();
  exchange();
  expect_valid();
}

TEST_F(TokenKeyTest, APinThatIsWrongWhenTheTokenComesBackIsTriedOnce) {
  open_with(tokens->faulty("audit", "one"));
  exchange();
  tokens->fault("removed");
  EXPECT_FALSE(log->append_and_wait(request("lost")));
  tokens->fault("other_pin");
  const std::size_t before = tokens->logins();
  for (int i = 0; i < 3; ++i) {
    const auto failed = log->append_and_wait(request("lost"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::storage_failed);
  }
  EXPECT_EQ(tokens->logins(), before + 1);
  close();
  tokens->mend();
  open();
  exchange();
  expect_valid();
}

TEST_F(TokenKeyTest, SeveralThreadsTakeTurns) {
  const auto token_key = TokenKey::open(parse_pkcs11_uri(key).value(), "log.example/test").value();
  const auto sign_some = [&] {
    for (int i = 0; i < 20; ++i) {
      const std::string text = "message " + std::to_string(i) + "\n";
      const auto signature = token_key->sign(as_bytes(text));
      ASSERT_TRUE(signature);
      EXPECT_TRUE(ed25519_verify(token_key->verifier().key, as_bytes(text), *signature));
    }
  };
  std::thread other(sign_some);
  sign_some();
  other.join();
}

}  // namespace
}  // namespace verbatim::audit::test
