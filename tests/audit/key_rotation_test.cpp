// Changing the log's key: who holds the first key follows to the newest, and a key that nobody announced is refused.

#include "audit/append_socket.hpp"
#include "audit/backup.hpp"
#include "audit/export.hpp"
#include "audit/key_rotator.hpp"
#include "audit/merkle.hpp"
#include "audit/proof.hpp"
#include "audit/signer.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <cstdlib>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

class KeyRotationTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    first_ = log->vkey();
    exchange();
  }
  Appended rotate() { return log->append_and_wait(rotate_key("yearly", "tester")).value(); }
  Appended retire() { return log->append_and_wait(retire_key("overlap over", "tester")).value(); }
  [[nodiscard]] std::string outcome(const VerifyOptions& with = {}) const {
    const VerifyReport report = verified(with);
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }
  [[nodiscard]] static VerifyOptions trusting(const std::string& vkey) {
    VerifyOptions with;
    with.vkey = vkey;
    return with;
  }
  [[nodiscard]] fs::path bundle() const {
    ExportOptions with;
    with.out = folder.string() + ".bundle";
    fs::remove_all(with.out);
    with.extra_files = {
        {"verify.py", read_file(VERBATIM_SOURCE_DIR "/audit/evidence/verify.py", 1 << 20).value()}};
    (void)export_evidence(*reader(), with).value();
    return with.out;
  }
  /// Exit code of the script that a bundle carries.
  [[nodiscard]] static int python(const fs::path& script, const std::string& arguments) {
    const int status = std::system(
        ("'" VERBATIM_PYTHON "' -B '" + script.string() + "' " + arguments + " > /dev/null")
            .c_str());
    return WEXITSTATUS(status);
  }
  [[nodiscard]] std::size_t signatures() const {
    return parse_note(reader()->checkpoint().value())->signatures.size();
  }
  [[nodiscard]] std::size_t keys_on_disk() const {
    const std::string text = read_file(folder / "log.key", 4096).value();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string first_;
};

TEST_F(KeyRotationTest, BothKeysSignUntilTheOldOneRetires) {
  (void)rotate();
  const std::string second = log->vkey();
  EXPECT_NE(second, first_);
  EXPECT_EQ(reader()->vkey(), second);
  EXPECT_EQ(signatures(), 2u);
  EXPECT_EQ(keys_on_disk(), 2u);
  // Who knows the old key alone goes on reading during the overlap.
  EXPECT_TRUE(open_checkpoint(reader()->checkpoint().value(), parse_vkey(first_).value()));
  exchange();
  EXPECT_EQ(reader()->leaf(retire().index)->json.at("vkey"), first_);
  EXPECT_EQ(signatures(), 2u);  // the last that it signs is the one under which it says so
  exchange();
  EXPECT_EQ(signatures(), 1u);
  EXPECT_EQ(keys_on_disk(), 1u);
  EXPECT_FALSE(open_checkpoint(reader()->checkpoint().value(), parse_vkey(first_).value()));
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(verified().keys, (std::vector<std::string>{first_, second}));
  close();
  open();
  exchange();
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(KeyRotationTest, TheLeafHoldsANoteThatBothKeysSigned) {
  const Appended change = rotate();
  const std::string second = log->vkey();
  const Json leaf = reader()->leaf(change.index)->json;
  EXPECT_EQ(leaf.at("type"), "key_rotated");
  EXPECT_EQ(leaf.at("reason"), "yearly");
  const std::string note = leaf.at("note");
  const KeyRotation rotation = open_rotation(note).value();
  EXPECT_EQ(rotation.origin, "log.example/test");
  EXPECT_EQ(rotation.index, change.index);
  EXPECT_EQ(rotation.from.str(), first_);
  EXPECT_EQ(rotation.to.str(), second);
  EXPECT_EQ(parse_note(note)->text,
            "verbatim/key-rotation/v1\nlog.example/test\n4\n" + first_ + "\n" + second + "\n");
  // Without the one signature or the other, or with any byte changed, it says nothing.
  const std::size_t newest_line = note.rfind("\n\xE2\x80\x94");
  EXPECT_FALSE(open_rotation(note.substr(0, newest_line + 1)));
  const std::size_t lines = note.find("\n\n") + 2;
  EXPECT_FALSE(open_rotation(note.substr(0, lines) + note.substr(newest_line + 1)));
  for (std::size_t i = 0; i < note.size(); ++i) {
    std::string changed = note;
    changed[i] ^= 1;
    EXPECT_FALSE(open_rotation(changed)) << i;
  }
}

TEST_F(KeyRotationTest, WhoHoldsAnyOfTheKeysAcceptsTheLogTheBundleAndItsScript) {
  std::vector<std::string> keys{first_};
  for (int i = 0; i < 3; ++i) {
    (void)rotate();
    keys.push_back(log->vkey());
    exchange();
    if (i < 2) (void)retire();
  }
  const fs::path out = bundle();
  for (const std::string& key : keys) {
    EXPECT_EQ(outcome(trusting(key)), "VALID") << key;
    const VerifyReport report = verify(out, trusting(key)).value();
    EXPECT_EQ(report.verdict, Verdict::valid) << key;
    EXPECT_EQ(report.keys, keys);
    EXPECT_EQ(python(out / "verify.py", "--key '" + key + "'"), 0) << key;
  }
  const std::string stranger =
      parse_skey(format_skey("log.example/test", Ed25519Seed{1}))->verifier().str();
  EXPECT_EQ(outcome(trusting(stranger)), "TAMPERED key");
  EXPECT_EQ(verify(out, trusting(stranger))->verdict, Verdict::tampered);
  EXPECT_EQ(python(out / "verify.py", "--key '" + stranger + "'"), 1);
}

TEST_F(KeyRotationTest, ReceiptsLeadFromTheFirstKeyToTheNewest) {
  (void)rotate();
  const std::string second = log->vkey();
  (void)retire();
  (void)rotate();
  const std::string third = log->vkey();
  (void)retire();
  const Appended asked = exchange();
  const std::string receipt = reader()->receipt(asked.index).value();
  const fs::path file = folder / "receipt";
  ASSERT_TRUE(write_file(file, receipt));
  const fs::path script = VERBATIM_SOURCE_DIR "/audit/evidence/verify.py";
  for (const std::string& key : {first_, second, third}) {
    const ReceiptReport report = verify_receipt(receipt, trusting(key)).value();
    EXPECT_EQ(report.verdict, Verdict::valid) << key;
    EXPECT_EQ(report.leaf, reader()->leaf(asked.index)->bytes);
    EXPECT_EQ(python(script, "--receipt '" + file.string() + "' --key '" + key + "'"), 0) << key;
  }
  // Without the notes in between, the first key vouches for nothing.
  TlogProof proof = parse_tlog_proof(receipt).value();
  proof.extra = proof.extra.substr(0, proof.extra.find('\n'));
  const std::string bare = format_tlog_proof(proof);
  EXPECT_EQ(verify_receipt(bare, trusting(third))->verdict, Verdict::valid);
  EXPECT_EQ(verify_receipt(bare, trusting(first_))->verdict, Verdict::tampered);
  proof.extra += "\n[\"not a note\"]";
  EXPECT_EQ(verify_receipt(format_tlog_proof(proof), trusting(first_))->verdict, Verdict::tampered);
  proof.extra += "]";
  EXPECT_EQ(verify_receipt(format_tlog_proof(proof), trusting(first_)).error().code,
            Errc::invalid_input);
}

TEST_F(KeyRotationTest, ACheckpointByAKeyThatNobodyAnnouncedIsRefused) {
  (void)rotate();
  close();
  const std::string stranger = format_skey("log.example/test", Ed25519Seed{7});
  const auto key = parse_skey(stranger).value();
  const auto r = reader();
  const std::string head = parse_note(r->checkpoint().value())->text;
  attack_without_triggers("UPDATE checkpoint SET note = '" + sign_note(head, key) +
                          "' WHERE size = (SELECT max(size) FROM checkpoint)");
  EXPECT_EQ(outcome(), "TAMPERED checkpoint_key");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(KeyRotationTest, AKeySignsNoTreeBeforeOrAfterItsTime) {
  const Appended change = rotate();
  const std::string second = log->vkey();
  const std::string old_key = read_file(folder / "log.key", 4096).value();
  exchange();
  (void)retire();
  exchange();
  close();
  // The old key, which somebody kept a copy of, signs the newest tree alone; the new one an early tree.
  const auto lines = old_key.find('\n');
  const auto newer = parse_skey(old_key.substr(0, lines)).value();
  const auto older = parse_skey(old_key.substr(lines + 1, old_key.size() - lines - 2)).value();
  ASSERT_EQ(older.verifier().str(), first_);
  ASSERT_EQ(newer.verifier().str(), second);
  const auto chain = reader()->keys().value();
  const std::string head = parse_note(reader()->checkpoint().value())->text;
  EXPECT_TRUE(open_checkpoint(sign_note(head, newer), chain));
  EXPECT_EQ(open_checkpoint(sign_note(head, older), chain).error().code, Errc::not_found);
  const std::string early = checkpoint_text({"log.example/test", 2, empty_root()});
  EXPECT_TRUE(open_checkpoint(sign_note(early, older), chain));
  EXPECT_EQ(open_checkpoint(sign_note(early, newer), chain).error().code, Errc::not_found);
  // In the overlap the new key must have signed; the old one's word alone is not enough.
  const std::string between = checkpoint_text({"log.example/test", change.index + 1, empty_root()});
  EXPECT_FALSE(open_checkpoint(sign_note(between, older), chain));
  EXPECT_TRUE(open_checkpoint(sign_note(between, newer), chain));
}

TEST_F(KeyRotationTest, OneOverlapAtATime) {
  const auto refused = [&](const LeafDraft& draft) {
    return log->append_and_wait(draft).error().code;
  };
  EXPECT_EQ(refused(retire_key("x", "tester")), Errc::unavailable);
  (void)rotate();
  EXPECT_EQ(refused(rotate_key("x", "tester")), Errc::unavailable);
  (void)retire();
  EXPECT_EQ(refused(retire_key("x", "tester")), Errc::unavailable);
  EXPECT_EQ(refused(rotate_key("", "tester")), Errc::invalid_input);
  EXPECT_EQ(refused(rotate_key(std::string(1025, 'x'), "tester")), Errc::invalid_input);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(KeyRotationTest, ACrashBetweenTheLeafAndTheKeysFileIsMended) {
  const std::string before = read_file(folder / "log.key", 4096).value();
  (void)rotate();
  const std::string second = log->vkey();
  const std::string both = read_file(folder / "log.key", 4096).value();
  close();
  // The leaf is there, and the new key still waits in its file.
  ASSERT_TRUE(write_file(folder / "log.key", before, 0600));
  ASSERT_TRUE(write_file(folder / "log.key.next", both.substr(0, both.find('\n') + 1), 0600));
  open();
  EXPECT_EQ(log->vkey(), second);
  EXPECT_EQ(read_file(folder / "log.key", 4096).value(), both);
  EXPECT_FALSE(fs::exists(folder / "log.key.next"));
  (void)retire();
  close();
  // The leaf about the retired key is there, and the key too.
  ASSERT_TRUE(write_file(folder / "log.key", both, 0600));
  // A key that was made, and whose leaf never came.
  ASSERT_TRUE(write_file(folder / "log.key.next",
                         format_skey("log.example/test", Ed25519Seed{9}) + "\n", 0600));
  open();
  EXPECT_EQ(keys_on_disk(), 1u);
  EXPECT_FALSE(fs::exists(folder / "log.key.next"));
  EXPECT_EQ(outcome(), "VALID");
  // Without the newest key nothing can be signed.
  close();
  ASSERT_TRUE(write_file(folder / "log.key", before, 0600));
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(KeyRotationTest, TheMarkIsKeptAcrossRotations) {
  (void)rotate();
  (void)retire();
  exchange();
  EXPECT_EQ(outcome(), "VALID");
  close();
  attack_without_triggers(
      "DELETE FROM checkpoint WHERE size = (SELECT max(size) FROM checkpoint);"
      "DELETE FROM leaf WHERE idx >= (SELECT max(size) FROM checkpoint);"
      "DELETE FROM content WHERE id >= 16 * (SELECT max(size) FROM checkpoint)");
  EXPECT_EQ(verified().verdict, Verdict::truncated);
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(KeyRotationTest, AKeptCheckpointOfTheFirstKeyIsStillChecked) {
  const std::string kept = reader()->checkpoint().value();
  (void)rotate();
  (void)retire();
  exchange();
  VerifyOptions with = trusting(first_);
  with.checkpoint = kept;
  EXPECT_EQ(outcome(with), "VALID");
  EXPECT_EQ(verify(bundle(), with)->verdict, Verdict::valid);
  with.policy = "log " + first_ + "\nquorum none\n";
  EXPECT_EQ(outcome(with), "VALID");
}

TEST_F(KeyRotationTest, ALeafThatDoesNotFitIsFound) {
  const Appended change = rotate();
  close();
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(bytes, 'yearly', 'weekly') AS BLOB)"
      " WHERE idx = " +
      std::to_string(change.index));
  EXPECT_EQ(verified().verdict, Verdict::tampered);
  EXPECT_EQ(kinds(verified()).front(), "leaf_hash");
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(bytes, 'key-rotation', 'key-rotatiom')"
      " AS BLOB) WHERE idx = " +
      std::to_string(change.index));
  EXPECT_EQ(verified().verdict, Verdict::tampered);
  EXPECT_EQ(kinds(verified()).front(), "key_chain");
}

TEST_F(KeyRotationTest, AnotherProcessAsksTheOneThatHoldsTheLog) {
  close();
  LogOptions with = options();
  with.listen = true;
  log = Log::open(with, clock).value();
  const auto other = connect_appender(folder).value();
  // Whatever else it sends, the log makes the leaf.
  LeafDraft draft = rotate_key("yearly", "tester");
  draft.fields["note"] = "mine";
  const Appended change = other->append_and_wait(draft).value();
  EXPECT_EQ(reader()->keys()->newest().str(), log->vkey());
  EXPECT_NE(reader()->leaf(change.index)->json.at("note"), "mine");
  EXPECT_EQ(other->append_and_wait(draft).error().code, Errc::unavailable);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(KeyRotationTest, ABackupHoldsTheKeysThatSign) {
  (void)rotate();
  exchange();
  BackupOptions with;
  with.out = folder.string() + ".backup";
  with.keys = true;
  ASSERT_TRUE(back_up(folder, with));
  EXPECT_EQ(verify(with.out, trusting(first_))->verdict, Verdict::valid);
}

TEST_F(KeyRotationTest, AnOlderLogsTablesAreBroughtUpToDate) {
  close();
  attack(back_to_format(2));
  EXPECT_EQ(outcome(), "VALID");
  open();
  (void)rotate();
  EXPECT_EQ(outcome(), "VALID");
}

}  // namespace
}  // namespace verbatim::audit::test
