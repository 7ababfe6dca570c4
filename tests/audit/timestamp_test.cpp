// Time stamps of checkpoints: asked for, kept in the log, and held against it.

#include "audit/timestamp.hpp"

#include "audit/export.hpp"
#include "audit/proof.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"
#include "tests/audit/local_tsa.hpp"

#include <cstdlib>

namespace verbatim::audit::test {
namespace {

constexpr std::int64_t kNowSeconds = kNow / 1'000'000;
constexpr std::int64_t kDaySeconds = 86'400;

class TimestampTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    exchange();
  }
  [[nodiscard]] std::string note() const { return reader()->signed_checkpoint().value(); }

  Timestamp stamp(const std::string& of, std::int64_t time_s = kNowSeconds,
                  bool other_use = false) {
    const std::string query = make_timestamp_query(sha256(of));
    auto token = open_timestamp_answer(tsa_.answer(query, time_s, other_use), query);
    return stamped(of, std::move(token).value()).value();
  }
  Appended keep(const Timestamp& timestamp) {
    return log->append_and_wait(timestamp_draft(timestamp, "tester")).value();
  }
  [[nodiscard]] static VerifyOptions trusting(const LocalTsa& tsa) {
    VerifyOptions options;
    options.tsa_ca = tsa.ca_pem();
    return options;
  }
  [[nodiscard]] std::string outcome(const VerifyOptions& with = {}) const {
    const VerifyReport report = verified(with);
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }
  /// Verifies a bundle, or a receipt, by the script that goes with it. Returns its exit code.
  int run_script(const std::string& arguments) const {
    const std::string script = VERBATIM_SOURCE_DIR "/audit/evidence/verify.py";
    const std::string command = "'" VERBATIM_PYTHON "' -I -B '" + script + "' " + arguments +
                                " >'" + (folder / "said").string() + "' 2>&1";
    const int status = std::system(command.c_str());
    return WEXITSTATUS(status);
  }
  [[nodiscard]] std::string said() const { return read_file(folder / "said", 1 << 20).value(); }

  LocalTsa tsa_{"first", kNowSeconds}, other_{"other", kNowSeconds};
};

TEST_F(TimestampTest, AStampIsOfTheCheckpointAndIsTrustedOnlyWhereSomebodyWasNamed) {
  const std::uint64_t size = reader()->size().value();
  const Appended kept = keep(stamp(note(), kNowSeconds + 5));
  exchange();
  const VerifyReport unchecked = verified();
  EXPECT_EQ(unchecked.verdict, Verdict::valid);
  EXPECT_EQ(unchecked.timestamps.found, 1);
  EXPECT_EQ(unchecked.timestamps.trusted, 0);
  EXPECT_FALSE(unchecked.timestamps.newest->trusted);
  const VerifyReport checked = verified(trusting(tsa_));
  EXPECT_EQ(checked.verdict, Verdict::valid);
  EXPECT_EQ(checked.timestamps.trusted, 1);
  const TimestampFinding& newest = *checked.timestamps.newest;
  EXPECT_TRUE(newest.trusted);
  EXPECT_EQ(newest.index, kept.index);
  EXPECT_EQ(newest.size, size);
  EXPECT_EQ(newest.time_us, (kNowSeconds + 5) * 1'000'000);
  EXPECT_EQ(newest.tsa, "CN=first stamps");
}

TEST_F(TimestampTest, WhoAsksForTrustedTimeIsToldWhereThereIsNone) {
  EXPECT_EQ(outcome(trusting(tsa_)), "VALID_UNWITNESSED timestamp_missing");
  keep(stamp(note()));
  EXPECT_EQ(outcome(trusting(other_)), "VALID_UNWITNESSED timestamp_untrusted");
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(TimestampTest, ACertificateIsJudgedAtTheTokensTimeAndByItsUse) {
  const auto trust = TimestampTrust::from_pem(tsa_.ca_pem()).value();
  EXPECT_TRUE(trust.check(stamp(note()).token));
  const auto late = trust.check(stamp(note(), kNowSeconds + 2 * kDaySeconds).token);
  EXPECT_EQ(late.error().code, Errc::tampered);
  EXPECT_NE(late.error().what.find("certificate has expired"), std::string::npos);
  const auto early = trust.check(stamp(note(), kNowSeconds - 2 * kDaySeconds).token);
  EXPECT_NE(early.error().what.find("not yet valid"), std::string::npos);
  const auto misused = trust.check(stamp(note(), kNowSeconds, true).token);
  EXPECT_NE(misused.error().what.find("purpose"), std::string::npos) << misused.error().what;
  for (const std::string_view none : {std::string_view("no certificate"), std::string_view()}) {
    EXPECT_EQ(TimestampTrust::from_pem(none).error().code, Errc::invalid_input);
  }
}

TEST_F(TimestampTest, AnAnswerToAnotherQuestionIsRefused) {
  const std::string asked = make_timestamp_query(sha256(note()));
  const std::string again = make_timestamp_query(sha256(note()));
  const std::string other = make_timestamp_query(sha256("something else"));
  const auto nonce = open_timestamp_answer(tsa_.answer(again, kNowSeconds), asked);
  EXPECT_EQ(nonce.error().code, Errc::tampered);
  EXPECT_NE(nonce.error().what.find("nonce"), std::string::npos);
  const auto imprint = open_timestamp_answer(tsa_.answer(other, kNowSeconds), asked);
  EXPECT_EQ(imprint.error().code, Errc::tampered);
  EXPECT_NE(imprint.error().what.find("imprint"), std::string::npos);
  EXPECT_EQ(timestamp_query_imprint(other).value(), sha256("something else"));
}

TEST_F(TimestampTest, WhatIsNoAnswerIsRefused) {
  const std::string query = make_timestamp_query(sha256(note()));
  const std::string answer = tsa_.answer(query, kNowSeconds);
  for (const std::string& bad : {std::string(), std::string("no DER"), answer + "x",
                                 answer.substr(0, answer.size() - 1), std::string(1 << 20, '0')}) {
    EXPECT_EQ(open_timestamp_answer(bad, query).error().code, Errc::upstream_failed);
  }
  // A refusal: status 2, no token.
  EXPECT_EQ(open_timestamp_answer("\x30\x05\x30\x03\x02\x01\x02", query).error().code,
            Errc::upstream_failed);
  EXPECT_EQ(timestamp_query_imprint("no DER").error().code, Errc::invalid_input);
  EXPECT_EQ(open_timestamp_token(query).error().code, Errc::invalid_input);
}

TEST_F(TimestampTest, NoFlippedBitOfATokenMakesItSaySomethingElse) {
  const TimestampToken token = stamp(note()).token;
  for (std::size_t bit = 0; bit < token.der.size() * 8; bit += 3) {
    std::string changed = token.der;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto opened = open_timestamp_token(changed);
    if (!opened) continue;  // some bits carry no meaning: a certificate's own signature, say
    EXPECT_EQ(opened->imprint, token.imprint) << bit;
    EXPECT_EQ(opened->time_us, token.time_us) << bit;
  }
  for (std::size_t size = 0; size < token.der.size(); ++size) {
    EXPECT_FALSE(open_timestamp_token(std::string_view(token.der).substr(0, size)));
  }
}

TEST_F(TimestampTest, ALeafThatDoesNotSayWhatItsTokenSaysIsTampering) {
  const Timestamp good = stamp(note());
  const auto with = [&](const char* member, Json value) {
    LeafDraft draft = timestamp_draft(good, "tester");
    draft.fields[member] = std::move(value);
    return draft;
  };
  exchange();
  const Timestamp another = stamp(note());
  for (LeafDraft& draft :
       std::vector<LeafDraft>{with("size", good.head.size + 1), with("stamped", "2020-01-01"),
                              with("tsa", "CN=nobody"), with("token", "AAAA"), with("note", "x\n"),
                              with("token", to_base64(as_bytes(another.token.der)))}) {
    ASSERT_TRUE(log->append_and_wait(std::move(draft)));
  }
  const VerifyReport report = verified(trusting(tsa_));
  EXPECT_EQ(report.verdict, Verdict::tampered);
  EXPECT_EQ(report.problems.size(), 6);
  EXPECT_EQ(kinds(report), std::vector<std::string>{"timestamp"});
}

TEST_F(TimestampTest, AStampOfAnotherHistoryIsAFork) {
  close();
  const std::filesystem::path other = folder.string() + ".other";
  std::filesystem::copy(folder, other, std::filesystem::copy_options::recursive);
  open();
  exchange("mine");
  close();
  std::swap(folder, const_cast<std::filesystem::path&>(other));
  open();
  exchange("theirs");
  const Timestamp theirs = stamp(note());
  close();
  std::swap(folder, const_cast<std::filesystem::path&>(other));
  open();
  exchange("mine again");
  keep(theirs);
  EXPECT_EQ(outcome(), "FORKED timestamp_fork");
}

TEST_F(TimestampTest, AStampOfWhatTheLogDidNotSignIsTampering) {
  const auto key = NoteSigningKey{log->origin(), Ed25519PrivateKey(Ed25519Seed{1})};
  const auto head = parse_checkpoint_text(parse_note(note())->text).value();
  keep(stamp(sign_note(checkpoint_text(head), key)));
  EXPECT_EQ(outcome(), "TAMPERED timestamp");
}

TEST_F(TimestampTest, BundlesHoldTheStampsAndTheScriptComparesThem) {
  keep(stamp(note()));
  exchange();
  ExportOptions with;
  with.out = folder.string() + ".bundle";
  ASSERT_TRUE(export_evidence(*reader(), with));
  const auto report = verify(with.out, trusting(tsa_)).value();
  EXPECT_EQ(report.verdict, Verdict::valid);
  EXPECT_EQ(report.timestamps.trusted, 1);
  EXPECT_EQ(verify(with.out, trusting(other_))->verdict, Verdict::valid_unwitnessed);
  EXPECT_EQ(run_script(with.out.string()), 0) << said();
  EXPECT_NE(said().find("stamped    1 times"), std::string::npos) << said();
  EXPECT_NE(said().find("UNCHECKED  the time stamp"), std::string::npos) << said();

  // One that is not of its checkpoint is found by both.
  LeafDraft bad = timestamp_draft(stamp(note()), "tester");
  exchange();
  bad.fields["token"] = to_base64(as_bytes(stamp(note()).token.der));
  ASSERT_TRUE(log->append_and_wait(bad));
  std::filesystem::remove_all(with.out);
  ASSERT_TRUE(export_evidence(*reader(), with));
  EXPECT_EQ(verify(with.out, {})->verdict, Verdict::tampered);
  EXPECT_EQ(run_script(with.out.string()), 1) << said();
  EXPECT_NE(said().find("something else than the checkpoint"), std::string::npos) << said();
}

TEST_F(TimestampTest, AReceiptTakesItsStampAlong) {
  const Appended asked = exchange();
  const Timestamp timestamp = stamp(note());
  keep(timestamp);
  const std::string receipt =
      reader()->receipt(asked.index, timestamp.note, timestamp.token.der).value();
  VerifyOptions with = trusting(tsa_);
  with.vkey = log->vkey();
  const auto report = verify_receipt(receipt, with).value();
  EXPECT_EQ(report.verdict, Verdict::valid);
  EXPECT_TRUE(report.timestamp->trusted);
  EXPECT_EQ(report.size, timestamp.head.size);
  with.tsa_ca = "";
  EXPECT_FALSE(verify_receipt(receipt, with)->timestamp->trusted);
  with.tsa_ca = other_.ca_pem();
  EXPECT_EQ(verify_receipt(receipt, with)->verdict, Verdict::valid_unwitnessed);
  const std::string plain = reader()->receipt(asked.index).value();
  EXPECT_EQ(verify_receipt(plain, with)->problems.at(0).kind, "timestamp_missing");
  const auto file = folder.string() + "/r.tlog-proof";
  ASSERT_TRUE(write_file(file, receipt));
  EXPECT_EQ(run_script("--receipt " + file + " --key " + log->vkey()), 0) << said();

  // A stamp of another checkpoint proves nothing of this one.
  exchange();
  const std::string swapped = reader()->receipt(asked.index, note(), timestamp.token.der).value();
  with.tsa_ca = tsa_.ca_pem();
  EXPECT_EQ(verify_receipt(swapped, with)->verdict, Verdict::tampered);
  ASSERT_TRUE(write_file(file, swapped));
  EXPECT_EQ(run_script("--receipt " + file + " --key " + log->vkey()), 1) << said();
}

TEST_F(TimestampTest, ACheckpointIsFoundByItsDigest) {
  const std::string old = note();
  exchange();
  EXPECT_EQ(reader()->checkpoint_with(sha256(old)).value(), old);
  EXPECT_EQ(reader()->checkpoint_with(sha256("else")).error().code, Errc::not_found);
}

TEST_F(TimestampTest, AnOlderLogsTablesAreBroughtUpToDate) {
  close();
  attack(back_to_format(3));
  EXPECT_EQ(outcome(), "VALID");
  open();
  keep(stamp(note()));
  EXPECT_EQ(outcome(trusting(tsa_)), "VALID");
}

}  // namespace
}  // namespace verbatim::audit::test
