// Witnesses: the protocol's answers one by one, and what a log makes of cosignatures.

#include "audit/witness.hpp"

#include "audit/cosigned.hpp"
#include "audit/export.hpp"
#include "audit/key_rotator.hpp"
#include "audit/policy.hpp"
#include "audit/signer.hpp"
#include "audit/tiles.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTesseraSkey =
    "PRIVATE+KEY+example.com/log/testdata+33d7b496+AeymY/SZAX0jZcJ8enZ5FY1Dz+wTML2yWSkK+9DSF3eg";

/// A log of any size, in memory.
class SmallLog {
 public:
  explicit SmallLog(const std::string& skey = kTesseraSkey) : key_(parse_skey(skey).value()) {}

  void grow(std::uint64_t to, const std::string& what = "leaf") {
    for (std::uint64_t i = tree_.size(); i < to; ++i) {
      tree_.append(leaf_hash(as_bytes(what + std::to_string(i))),
                   [&](const Digest& hash) { nodes_.push_back(hash); });
    }
  }
  [[nodiscard]] VerifierKey key() const { return key_.verifier(); }
  [[nodiscard]] Checkpoint head() const { return {key_.name, tree_.size(), tree_.root()}; }
  [[nodiscard]] std::string note() const { return sign_note(checkpoint_text(head()), key_); }
  [[nodiscard]] std::vector<Digest> proof(std::uint64_t from) const {
    const auto node = [&](int level, std::uint64_t n) -> Result<Digest> {
      return nodes_.at(stored_hash_index(level, n));
    };
    return make_consistency_proof(node, from, tree_.size()).value();
  }
  /// The request that is right after `from` leaves.
  [[nodiscard]] std::string request(std::uint64_t from) const {
    return format_witness_request({from, from == 0 ? std::vector<Digest>() : proof(from), note()});
  }

 private:
  NoteSigningKey key_;
  CompactRange tree_;
  std::vector<Digest> nodes_;
};

class WitnessTest : public testing::Test {
 protected:
  void SetUp() override { folder = verbatim::test::fresh_dir(); }
  void TearDown() override { fs::remove_all(folder); }
  [[nodiscard]] std::unique_ptr<Witness> open() {
    return Witness::open(folder, "witness.example/w1", {log.key()}, clock).value();
  }

  fs::path folder;
  ManualClock clock{kNow};
  SmallLog log;
};

TEST_F(WitnessTest, CosignsTreesThatGoOn) {
  const auto witness = open();
  for (const std::uint64_t size : {1, 2, 3, 7, 8, 300}) {
    const std::uint64_t before = log.head().size;
    log.grow(size);
    const WitnessAnswer answer = witness->add_checkpoint(log.request(before));
    ASSERT_EQ(answer.status, 200) << size << answer.body;
    const Note note = parse_note(log.note() + answer.body).value();
    ASSERT_EQ(note.signatures.size(), 2u);
    EXPECT_EQ(verify_cosignature(note.signatures[1], note.text, witness->key()),
              static_cast<std::uint64_t>(kNow / 1'000'000));
    EXPECT_EQ(witness->read(sha256(log.key().name).hex() + "/checkpoint").body,
              log.note() + answer.body);
  }
  // The same tree again: a newer time.
  clock.advance_us(5'000'000);
  EXPECT_EQ(witness->add_checkpoint(log.request(300)).status, 200);
}

TEST_F(WitnessTest, AnswersAreThoseOfTheSpecification) {
  const auto witness = open();
  log.grow(5);
  const auto asked = [&](const WitnessRequest& request) {
    return witness->add_checkpoint(format_witness_request(request));
  };
  const auto status = [&](const WitnessRequest& request) { return asked(request).status; };
  EXPECT_EQ(status({0, log.proof(3), log.note()}), 422);  // a proof from nothing
  ASSERT_EQ(status({0, {}, log.note()}), 200);
  log.grow(9);
  // Another old size than the one it remembers: that one, and its media type.
  for (const std::uint64_t old_size : {0, 4, 6, 9}) {
    const WitnessAnswer conflict =
        asked({old_size, old_size == 0 ? std::vector<Digest>() : log.proof(old_size), log.note()});
    EXPECT_EQ(conflict.status, 409);
    EXPECT_EQ(conflict.type, "text/x.tlog.size");
    EXPECT_EQ(conflict.body, "5\n");
  }
  EXPECT_EQ(status({10, {}, log.note()}), 400);
  // Proofs that prove nothing.
  std::vector<Digest> proof = log.proof(5);
  EXPECT_EQ(status({5, {}, log.note()}), 422);
  proof.back().bytes[7] ^= 1;
  EXPECT_EQ(status({5, proof, log.note()}), 422);
  proof = log.proof(5);
  proof.emplace_back();
  EXPECT_EQ(status({5, proof, log.note()}), 422);
  // Another tree of the same size, and of a larger one, by the log's own key: a fork.
  SmallLog fork;
  fork.grow(5, "other");
  EXPECT_EQ(status({5, {}, fork.note()}), 422);
  fork.grow(9, "other");
  EXPECT_EQ(status({5, fork.proof(5), fork.note()}), 422);
  // Whose it is.
  SmallLog stranger(format_skey("log.example/stranger", Ed25519Seed{3}));
  stranger.grow(9);
  EXPECT_EQ(status({0, {}, stranger.note()}), 404);
  SmallLog impostor(format_skey("example.com/log/testdata", Ed25519Seed{3}));
  impostor.grow(9);
  EXPECT_EQ(status({5, log.proof(5), impostor.note()}), 403);
  std::string wrong = log.note();
  wrong[wrong.size() - 10] = wrong[wrong.size() - 10] == 'A' ? 'B' : 'A';
  EXPECT_EQ(status({5, log.proof(5), wrong}), 403);
  // Nothing of all that has changed its mind.
  EXPECT_EQ(status({5, log.proof(5), log.note()}), 200);
}

TEST_F(WitnessTest, AnEmptyTreeIsCosignedIfItIsEmpty) {
  const auto witness = open();
  EXPECT_EQ(witness->add_checkpoint(log.request(0)).status, 200);
  const auto key = parse_skey(kTesseraSkey).value();
  const std::string wrong = sign_note(checkpoint_text({key.name, 0, {}}), key);
  EXPECT_EQ(witness->add_checkpoint(format_witness_request({0, {}, wrong})).status, 422);
  log.grow(3);
  EXPECT_EQ(witness->add_checkpoint(log.request(0)).status, 200);
}

TEST_F(WitnessTest, MalformedRequestsAreRefused) {
  const auto witness = open();
  log.grow(3);
  const std::string good = log.request(0);
  EXPECT_EQ(parse_witness_request(good)->checkpoint, log.note());
  for (const std::string& bad :
       {std::string(), std::string("old"), "old 00\n\n" + log.note(), "old +0\n\n" + log.note(),
        "old 0 \n\n" + log.note(), "new 0\n\n" + log.note(), "old 0\n" + log.note(),
        "old 0\nnot base64\n\n" + log.note(), "old 0\nAAAA\n\n" + log.note(),
        std::string("old 0\n\n"), "old 0\n\n" + log.note() + "x",
        "old 18446744073709551616\n\n" + log.note()}) {
    EXPECT_EQ(witness->add_checkpoint(bad).status, 400) << bad;
  }
  const WitnessRequest many{0, std::vector<Digest>(64), log.note()};
  EXPECT_EQ(witness->add_checkpoint(format_witness_request(many)).status, 400);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_NE(witness->add_checkpoint(good.substr(0, i)).status, 200) << i;
  }
  EXPECT_EQ(witness->add_checkpoint(good).status, 200);
  EXPECT_EQ(witness->read("../witness.key").status, 404);
}

TEST_F(WitnessTest, RemembersAcrossRestarts) {
  std::string key;
  log.grow(5);
  {
    const auto witness = open();
    key = witness->key().str();
    ASSERT_EQ(witness->add_checkpoint(log.request(0)).status, 200);
  }
  const auto witness = open();
  EXPECT_EQ(witness->key().str(), key);
  log.grow(6);
  EXPECT_EQ(witness->add_checkpoint(log.request(0)).body, "5\n");
  EXPECT_EQ(witness->add_checkpoint(log.request(5)).status, 200);
  EXPECT_EQ(Witness::open(folder, "another.name", {log.key()}, clock).error().code,
            Errc::invalid_input);
  EXPECT_EQ(Witness::open(folder, "has a space", {log.key()}, clock).error().code,
            Errc::invalid_input);
  EXPECT_EQ(Witness::open(folder, "witness.example/w1", {}, clock).error().code,
            Errc::invalid_input);
}

TEST_F(WitnessTest, KeepsTheLogsSignatureAndItsOwnAlone) {
  const auto witness = open();
  log.grow(5);
  std::string crowded = log.note();
  for (int i = 0; i < 99; ++i) {
    crowded += signature_line("junk" + std::to_string(i), 7, Bytes(as_bytes("xxxx")));
  }
  const WitnessAnswer answer = witness->add_checkpoint(format_witness_request({0, {}, crowded}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(witness->read(sha256(log.key().name).hex() + "/checkpoint").body,
            log.note() + answer.body);
}

TEST_F(WitnessTest, AKeyWithoutItsMemoryDoesNotStart) {
  log.grow(5);
  EXPECT_EQ(open()->add_checkpoint(log.request(0)).status, 200);
  const auto start = [&] {
    return Witness::open(folder, "witness.example/w1", {log.key()}, clock);
  };
  for (const char* what : {"gone", "empty"}) {
    fs::remove(folder / "witness.db");
    if (what == std::string("empty")) {
      ASSERT_TRUE(write_file(folder / "witness.db", ""));
    }
    const auto witness = start();
    ASSERT_FALSE(witness) << what;
    EXPECT_EQ(witness.error().code, Errc::tampered) << what;
    EXPECT_NE(witness.error().message().find("lost its memory"), std::string::npos) << what;
  }
  // A start that ended between the two files is no loss: there is no key yet.
  fs::remove(folder / "witness.key");
  EXPECT_TRUE(start());
  fs::remove(folder / "witness.key");
  EXPECT_TRUE(start());
}

TEST_F(WitnessTest, CosignsThePublishedLog) {
  VERBATIM_NEED_SHARED(published, "data/vectors/audit/tessera-log15");
  const auto witness = open();
  const auto checkpoint = [&](int size) {
    return read_file(published / ("checkpoint." + std::to_string(size)), 1 << 16).value();
  };
  const std::string entries = read_file(published / entries_path(0, 15), 1 << 16).value();
  CompactRange tree;
  std::vector<Digest> nodes;
  for (const std::string_view leaf : split_entries(entries).value()) {
    tree.append(leaf_hash(as_bytes(leaf)), [&](const Digest& hash) { nodes.push_back(hash); });
  }
  const auto node = [&](int level, std::uint64_t n) -> Result<Digest> {
    return nodes.at(stored_hash_index(level, n));
  };
  for (int size = 1; size <= 15; ++size) {
    WitnessRequest request{static_cast<std::uint64_t>(size - 1), {}, checkpoint(size)};
    if (size > 1) {
      request.proof = make_consistency_proof(node, request.old_size, request.old_size + 1).value();
    }
    EXPECT_EQ(witness->add_checkpoint(format_witness_request(request)).status, 200) << size;
  }
}

class CosignedLogTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    exchange();
    state = folder.string() + ".other";
    witness = Witness::open(state, "witness.example/w1", {parse_vkey(log->vkey()).value()}, clock)
                  .value();
  }
  /// As the command does it; returns the witness's status.
  int ask() {
    const std::string note = reader()->checkpoint().value();
    const std::uint64_t size = reader()->size().value();
    WitnessRequest request{asked, {}, note};
    if (asked > 0) request.proof = consistency_proof(folder, asked, size).value();
    const WitnessAnswer answer = witness->add_checkpoint(format_witness_request(request));
    if (answer.status != 200) return answer.status;
    EXPECT_TRUE(keep_cosignature(folder, note, witness->key(), answer.body));
    asked = size;
    return 200;
  }
  [[nodiscard]] VerifyOptions with_policy() const {
    VerifyOptions with;
    with.policy = "log " + log->vkey() + "\nwitness w " + witness->key().str() +
                  " https://w.example/\nquorum w\n";
    return with;
  }
  [[nodiscard]] std::string outcome(const VerifyOptions& with) const {
    const VerifyReport report = verified(with);
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }

  fs::path state;
  std::unique_ptr<Witness> witness;
  std::uint64_t asked = 0;
};

TEST_F(CosignedLogTest, APolicyIsMetByTheNewestCheckpointOnly) {
  EXPECT_EQ(outcome(with_policy()), "VALID_UNWITNESSED policy_quorum");
  ASSERT_EQ(ask(), 200);
  EXPECT_EQ(outcome(with_policy()), "VALID");
  exchange();
  EXPECT_EQ(outcome(with_policy()), "VALID_UNWITNESSED policy_quorum");
  ASSERT_EQ(ask(), 200);
  EXPECT_EQ(outcome(with_policy()), "VALID");
  EXPECT_EQ(cosigned_checkpoints(folder).size(), 2u);
}

TEST_F(CosignedLogTest, BundlesAndReceiptsCarryCosignatures) {
  const Appended early = exchange();
  ASSERT_EQ(ask(), 200);
  ExportOptions with;
  with.out = folder.string() + ".bundle";
  (void)export_evidence(*reader(), with).value();
  EXPECT_EQ(verify(with.out, with_policy())->verdict, Verdict::valid);
  VerifyOptions trusting = with_policy();
  trusting.vkey = log->vkey();
  EXPECT_EQ(verify_receipt(reader()->receipt(early.index).value(), trusting)->verdict,
            Verdict::valid);
  const std::string kept = cosigned_checkpoints(folder).rbegin()->second;
  exchange();
  EXPECT_EQ(verify_receipt(reader()->receipt(early.index).value(), trusting)->verdict,
            Verdict::valid_unwitnessed);
  EXPECT_EQ(verify_receipt(reader()->receipt(early.index, kept).value(), trusting)->verdict,
            Verdict::valid);
  fs::remove_all(with.out);
  with.note = kept;
  (void)export_evidence(*reader(), with).value();
  EXPECT_EQ(verify(with.out, trusting)->verdict, Verdict::valid);
}

TEST_F(CosignedLogTest, ALogThatWasCutIsShownByWhatWasCosigned) {
  ASSERT_EQ(ask(), 200);
  close();
  attack_without_triggers(
      "DELETE FROM checkpoint WHERE size >= " + std::to_string(asked) +
      ";DELETE FROM leaf WHERE idx >= (SELECT max(size) FROM checkpoint)"
      ";DELETE FROM content WHERE id >= 16 * (SELECT max(size) FROM checkpoint)");
  // Whoever rewrites the mark as well has the note of the cut log to put there.
  std::string mark = reader()->checkpoint().value();
  mark.resize(8192, '\n');
  ASSERT_TRUE(write_file(folder / "high-water", mark, 0600));
  EXPECT_EQ(outcome({}), "TRUNCATED cosigned_ahead");
}

TEST_F(CosignedLogTest, AForkIsShownByWhatWasCosigned) {
  ASSERT_EQ(ask(), 200);
  const auto key = seed_in(folder);
  const std::string forged = sign_note(checkpoint_text({key.name, 3, {}}), key);
  ASSERT_TRUE(write_file(folder / "cosigned/3", forged, 0600));
  EXPECT_EQ(outcome({}), "FORKED cosigned_fork");
  ASSERT_TRUE(write_file(folder / "cosigned/3", "no note", 0600));
  EXPECT_EQ(outcome({}), "VALID");
}

TEST_F(CosignedLogTest, WhatIsNotTheWitnessesIsNotKept) {
  const std::string note = reader()->checkpoint().value();
  const std::string text = parse_note(note)->text;
  const Ed25519PrivateKey other(Ed25519Seed{5});
  const std::string by_other = cosign(text, "witness.example/w1", other, 1);
  EXPECT_EQ(keep_cosignature(folder, note, witness->key(), by_other).error().code, Errc::tampered);
  EXPECT_EQ(keep_cosignature(folder, note, witness->key(), "").error().code, Errc::tampered);
  EXPECT_EQ(keep_cosignature(folder, note, witness->key(), "garbage").error().code,
            Errc::invalid_input);
  EXPECT_TRUE(cosigned_checkpoints(folder).empty());
}

TEST_F(CosignedLogTest, AWitnessThatKnowsTheOldKeyFollowsThroughTheOverlap) {
  ASSERT_EQ(ask(), 200);
  (void)log->append_and_wait(rotate_key("yearly", "tester")).value();
  EXPECT_EQ(ask(), 200);
  (void)log->append_and_wait(retire_key("over", "tester")).value();
  EXPECT_EQ(ask(), 200);
  exchange();
  EXPECT_EQ(ask(), 403);
  witness.reset();
  std::vector<VerifierKey> both = reader()->keys()->all();
  witness = Witness::open(state, "witness.example/w1", both, clock).value();
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(outcome({}), "VALID");
}

}  // namespace
}  // namespace verbatim::audit::test
