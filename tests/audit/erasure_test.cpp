// Erasure: contents are gone from every file, every proof stays, and a leaf names exactly what went.

#include "audit/erasure.hpp"

#include "audit/export.hpp"
#include "audit/keys.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <atomic>
#include <functional>
#include <thread>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

const std::string kPrompt = "CANARY-PROMPT-7f3a My name is Alice Example and my card is 4111";
const std::string kAnswer = "CANARY-ANSWER-91bc Dear Alice Example, of course";

class ErasureTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
  }
  /// An exchange of a subject.
  Appended exchange_of(const std::string& subject, const std::string& body = kPrompt,
                       const std::string& answer = kAnswer) {
    LeafDraft asked = request(body);
    asked.subject = subject;
    asked.fields["subject"] = subject;
    const Appended at = log->append_and_wait(asked).value();
    LeafDraft answered = response(at, answer);
    answered.subject = subject;
    (void)log->append_and_wait(answered).value();
    return at;
  }
  static EraseRequest of_record(const Uuid& id) { return {Scope{id, "", false}, "test", "tester"}; }
  static EraseRequest of_subject(const std::string& handle) {
    return {Scope{{}, handle, false}, "test", "tester"};
  }
  Appended hold(const Scope& scope) {
    LeafDraft draft;
    draft.type = "legal_hold";
    draft.fields = {{"scope", scope_json(scope)}, {"reason", "case 17"}, {"actor", "tester"}};
    return log->append_and_wait(draft).value();
  }
  void release(const Uuid& id) {
    LeafDraft draft;
    draft.type = "legal_hold_released";
    draft.fields = {{"hold", id.str()}, {"reason", "closed"}, {"actor", "tester"}};
    (void)log->append_and_wait(draft).value();
  }
  [[nodiscard]] std::string outcome() const {
    const VerifyReport report = verified();
    std::string text(verdict_name(report.verdict));
    for (const Problem& problem : report.problems) text += " " + problem.kind;
    return text;
  }
  /// Every file below the folder that holds these bytes.
  [[nodiscard]] std::vector<std::string> files_with(const std::string& bytes) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = read_file(entry.path(), 1 << 28).value();
      if (text.find(bytes) != std::string::npos) found.push_back(entry.path().filename());
    }
    return found;
  }
  /// A BLOB of the database, as it lies in the file.
  [[nodiscard]] std::string blob(const std::string& sql, const std::string& file = "log.db") const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open_v2((folder / file).c_str(), &db, SQLITE_OPEN_READONLY, nullptr),
              SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    std::string bytes(static_cast<const char*>(sqlite3_column_blob(statement, 0)),
                      static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
    sqlite3_finalize(statement);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_close(db);
    return bytes;
  }
};

TEST_F(ErasureTest, ARecordsContentsAreGoneAndTheLeafNamesThem) {
  const Appended other = exchange_of("bob");
  const Appended gone = exchange_of("alice");
  const ErasureReport report = log->erase(of_record(gone.id)).value();
  EXPECT_EQ(report.contents, 2u);
  EXPECT_TRUE(report.wal_emptied);
  EXPECT_FALSE(report.key_destroyed);
  ASSERT_EQ(report.leaves.size(), 1u);
  const Json leaf = reader()->leaf(report.leaves[0])->json;
  EXPECT_EQ(leaf.at("type"), "erasure");
  EXPECT_EQ(leaf.at("scope").at("record"), gone.id.str());
  EXPECT_EQ(leaf.at("reason"), "test");
  EXPECT_EQ(leaf.at("erased").dump(),
            R"([{"fields":["request.body"],"leaf":4},{"fields":["response.body"],"leaf":5}])");
  const Error error = reader()->content(gone.index, "request.body").error();
  EXPECT_EQ(error.code, Errc::erased);
  EXPECT_NE(error.what.find("leaf 6"), std::string::npos) << error.what;
  EXPECT_EQ(reader()->content(other.index, "request.body")->bytes, kPrompt);
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(verified().erased, 2u);
  EXPECT_EQ(verified().checked_contents, 2u);
  VerifyOptions with;
  with.vkey = log->vkey();
  EXPECT_EQ(verify_receipt(reader()->receipt(gone.index).value(), with)->verdict, Verdict::valid);
  // Again: nothing is left, and nothing is said twice.
  EXPECT_TRUE(log->erase(of_record(gone.id))->leaves.empty());
  close();
  open();
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, WhatAReaderKeptInTheWalGoesWhenItIsGone) {
  const Appended gone = exchange_of("alice");
  const std::string sealed =
      blob("SELECT sealed FROM content WHERE id = " + std::to_string(gone.index * 16));
  sqlite3* reading = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &reading), SQLITE_OK);
  const auto run = [&](const char* sql) {
    EXPECT_EQ(sqlite3_exec(reading, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  };
  run("BEGIN; SELECT count(*) FROM leaf");
  EXPECT_FALSE(log->erase(of_subject("alice"))->wal_emptied);
  EXPECT_FALSE(files_with(sealed).empty());
  run("COMMIT");
  sqlite3_close(reading);
  // Asked again, it is no error, and says when it is done.
  const ErasureReport again = log->erase(of_subject("alice")).value();
  EXPECT_TRUE(again.wal_emptied);
  EXPECT_TRUE(again.leaves.empty());
  EXPECT_TRUE(files_with(sealed).empty());
  EXPECT_EQ(log->erase(of_subject("nobody")).error().code, Errc::not_found);
}

TEST_F(ErasureTest, NobodyNeedsToAskForTheWalToBeEmptied) {
  const Appended gone = exchange_of("alice");
  const std::string sealed =
      blob("SELECT sealed FROM content WHERE id = " + std::to_string(gone.index * 16));
  sqlite3* reading = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &reading), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reading, "BEGIN; SELECT count(*) FROM leaf", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_FALSE(log->erase(of_record(gone.id))->wal_emptied);
  sqlite3_close(reading);
  for (int i = 0; i < 1000 && !files_with(sealed).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(files_with(sealed).empty());
}

TEST_F(ErasureTest, WhatACrashLeftInTheWalGoesWhenTheLogIsOpened) {
  const Appended gone = exchange_of("alice");
  const std::string sealed =
      blob("SELECT sealed FROM content WHERE id = " + std::to_string(gone.index * 16));
  sqlite3* reading = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &reading), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reading, "BEGIN; SELECT count(*) FROM leaf", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_FALSE(log->erase(of_record(gone.id))->wal_emptied);
  close();  // it cannot be emptied here either
  EXPECT_FALSE(files_with(sealed).empty());
  sqlite3_db_config(reading, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close(reading);
  EXPECT_FALSE(files_with(sealed).empty());
  open();
  EXPECT_TRUE(files_with(sealed).empty());
}

TEST_F(ErasureTest, NoFileHoldsTheBytesAnyMore) {
  // Large enough for overflow pages, and not compressible: sealed as it is.
  std::string noise(60'000, '\0');
  fill_random({reinterpret_cast<std::uint8_t*>(noise.data()), noise.size()});
  const Appended gone = exchange_of("alice", kPrompt + noise, kAnswer);
  const std::string id = std::to_string(gone.index * 16);
  const std::string sealed = blob("SELECT sealed FROM content WHERE id = " + id);
  const std::string dek = blob("SELECT dek FROM content WHERE id = " + id);
  const std::string kek = blob("SELECT wrapped FROM kek WHERE subject = 'alice'", "keys.db");
  for (int i = 0; i < 20; ++i) exchange_of("bob");
  ASSERT_FALSE(files_with(sealed.substr(0, 64)).empty());
  ASSERT_FALSE(files_with(dek).empty());
  ASSERT_FALSE(files_with(kek).empty());
  const ErasureReport report = log->erase(of_subject("alice")).value();
  EXPECT_TRUE(report.key_destroyed);
  EXPECT_TRUE(report.wal_emptied);
  exchange_of("bob");
  ExportOptions with;
  with.out = folder / "bundle";
  EXPECT_EQ(export_evidence(*reader(), with)->erased, 2u);
  const auto check = [&] {
    const std::vector<std::string> nowhere;
    for (std::size_t at = 0; at + 48 < sealed.size(); at += 1'000) {
      ASSERT_EQ(files_with(sealed.substr(at, 48)), nowhere) << "sealed bytes at " << at;
    }
    EXPECT_EQ(files_with(dek), nowhere);
    EXPECT_EQ(files_with(kek), nowhere);
    EXPECT_EQ(files_with(noise.substr(100, 64)), nowhere);
    EXPECT_EQ(files_with("CANARY-PROMPT-7f3a").size(), 22u - 1u);  // bob's, in the bundle
  };
  check();
  EXPECT_EQ(outcome(), "VALID");
  close();
  check();
  EXPECT_EQ(verify(with.out, {})->verdict, Verdict::valid);
  EXPECT_EQ(verify(with.out, {})->erased, 2u);
}

TEST_F(ErasureTest, ASubjectIsErasedInStepsEachWithItsLeafAndGetsANewKey) {
  for (int i = 0; i < 250; ++i) exchange_of("alice");
  const Appended other = exchange_of("bob");
  const ErasureReport report = log->erase(of_subject("alice")).value();
  EXPECT_EQ(report.contents, 500u);
  EXPECT_GE(report.leaves.size(), 3u);  // at most 400 leaves each, and the key's
  EXPECT_TRUE(report.key_destroyed);
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(verified().erased, 500u);
  const Appended later = exchange_of("alice");
  EXPECT_EQ(reader()->content(later.index, "request.body")->bytes, kPrompt);
  EXPECT_EQ(reader()->content(other.index, "request.body")->bytes, kPrompt);
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(log->erase(of_subject("nobody")).error().code, Errc::not_found);
  EXPECT_EQ(log->erase(of_subject("alice"))->contents, 2u);
  EXPECT_EQ(outcome(), "VALID");
}

/// Runs something once, the next time that another thread asks for the time.
class InterruptedClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_us() const override {
    if (std::this_thread::get_id() != mine_ && armed_.exchange(false)) interruption_();
    return kNow;
  }
  [[nodiscard]] std::int64_t steady_us() const override { return 0; }
  void interrupt(std::function<void()> interruption) {
    interruption_ = std::move(interruption);
    armed_ = true;
  }

 private:
  const std::thread::id mine_ = std::this_thread::get_id();
  mutable std::atomic<bool> armed_{false};
  std::function<void()> interruption_;
};

TEST_F(ErasureTest, AHoldThatComesWhileASubjectIsErasedStopsItAndTheErrorSaysWhatWent) {
  close();
  InterruptedClock interrupted;
  log = Log::open(options(), interrupted).value();
  for (int i = 0; i < 250; ++i) exchange_of("alice");
  // The first step asks for the time when it writes its leaf, on the writer's thread.
  interrupted.interrupt([&] {
    LeafDraft draft;
    draft.type = "legal_hold";
    draft.fields = {{"scope", scope_json(Scope{{}, "alice", false})},
                    {"reason", "case 18"},
                    {"actor", "tester"}};
    log->append(std::move(draft), [](const Result<Appended>& done) { EXPECT_TRUE(done); });
  });
  const auto done = log->erase(of_subject("alice"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable);
  const std::string& what = done.error().what;
  EXPECT_NE(what.find("before that, 400 contents were erased"), std::string::npos) << what;
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(verified().erased, 400u);
  close();  // the log must not outlive its clock
}

TEST_F(ErasureTest, AHoldForbidsUntilItIsReleased) {
  const Appended alice = exchange_of("alice");
  const Appended bob = exchange_of("bob");
  const auto refused = [&](const EraseRequest& what) {
    const auto done = log->erase(what);
    return !done && done.error().code == Errc::unavailable;
  };
  const Appended record = hold(Scope{alice.id, "", false});
  EXPECT_TRUE(refused(of_record(alice.id)));
  EXPECT_TRUE(refused(of_subject("alice")));
  ASSERT_EQ(reader()->holds()->size(), 1u);
  EXPECT_EQ(reader()->holds()->front().reason, "case 17");
  close();  // a hold outlives the process
  open();
  EXPECT_TRUE(refused(of_record(alice.id)));
  release(record.id);
  const Appended subject = hold(Scope{{}, "alice", false});
  EXPECT_TRUE(refused(of_record(alice.id)));
  EXPECT_TRUE(refused(of_subject("alice")));
  EXPECT_TRUE(log->erase(of_record(bob.id)));
  release(subject.id);
  const Appended all = hold(Scope{{}, "", true});
  EXPECT_TRUE(refused(of_record(alice.id)));
  EXPECT_TRUE(refused(of_subject("bob")));
  release(all.id);
  EXPECT_TRUE(reader()->holds()->empty());
  EXPECT_EQ(log->erase(of_record(alice.id))->contents, 2u);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, TheCachedOutputGoesWithItsRecord) {
  const auto key = log->cache_key("a", as_bytes("body")).value();
  const Appended asked = log->append_and_wait(request("q")).value();
  LeafDraft answer = response(asked, "a");
  answer.canonical = CanonicalOutput{key, 0};
  (void)log->append_and_wait(answer).value();
  EXPECT_EQ(log->canonical_output(key), asked.id);
  EXPECT_TRUE(log->erase(of_record(asked.id)));
  EXPECT_FALSE(log->canonical_output(key));
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, WhatCannotBeErasedIsRefused) {
  const Appended asked = log->append_and_wait(request("still open")).value();
  EXPECT_EQ(log->erase(of_record(asked.id)).error().code, Errc::unavailable);
  EXPECT_EQ(log->erase(of_record(Uuid{})).error().code, Errc::not_found);
  EXPECT_EQ(log->erase({Scope{}, "test", ""}).error().code, Errc::invalid_input);
  EXPECT_EQ(log->erase({Scope{asked.id, "", false}, "", ""}).error().code, Errc::invalid_input);
  EXPECT_EQ(log->erase({Scope{asked.id, "", false}, std::string(2000, 'x'), ""}).error().code,
            Errc::invalid_input);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, ErasesWhileOthersAppendReadAndVerify) {
  for (int i = 0; i < 100; ++i) exchange_of(i % 2 == 0 ? "alice" : "bob");
  std::atomic<bool> stop{false};
  std::thread traffic([&] {
    while (!stop) exchange_of("alice");
  });
  std::thread auditor([&] {
    while (!stop) EXPECT_EQ(outcome(), "VALID");
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(log->erase(of_subject("alice")));
    EXPECT_TRUE(log->erase(of_subject("bob")) || i > 0);
  }
  stop = true;
  traffic.join();
  auditor.join();
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, WorksThroughTheSocketOfTheProcessThatHoldsTheLog) {
  close();
  LogOptions listening = options();
  listening.listen = true;
  log = Log::open(listening, clock).value();
  const Appended gone = exchange_of("alice");
  auto appender = open_appender(folder, clock).value();
  const ErasureReport report = appender->erase(of_record(gone.id)).value();
  EXPECT_EQ(report.contents, 2u);
  EXPECT_TRUE(report.wal_emptied);
  ASSERT_EQ(report.leaves.size(), 1u);
  EXPECT_EQ(reader()->leaf(report.leaves[0])->json.at("actor"), "tester");
  const Appended all = hold(Scope{{}, "", true});
  const Error error = appender->erase(of_subject("alice")).error();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_EQ(error.where, all.id.str());
  LeafDraft forged;
  forged.type = "erasure";
  forged.fields = {{"erased", Json::array()}};
  EXPECT_EQ(appender->append_and_wait(forged).error().code, Errc::invalid_input);
}

TEST_F(ErasureTest, AKeyWhoseErasureACrashCutOffIsDestroyedAtTheNextStart) {
  exchange_of("alice");
  const auto id = Keys::open(folder, Keys::Mode::read).value()->live_key("alice").value().value();
  (void)log->erase(of_subject("alice")).value();
  close();
  // As if the process had ended between the leaf and the key.
  attack("UPDATE kek SET wrapped = zeroblob(60) WHERE id = " + std::to_string(id), "keys.db");
  open();
  EXPECT_FALSE(Keys::open(folder, Keys::Mode::read).value()->live_key("alice").value());
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, AKeyThatALeafCallsDestroyedIsNotThere) {
  exchange_of("alice");
  const auto keys = folder / "keys.db";
  const auto before = folder.string() + ".backup";
  fs::copy_file(keys, before);
  (void)log->erase(of_subject("alice")).value();
  close();
  EXPECT_EQ(outcome(), "VALID");
  fs::copy_file(before, keys, fs::copy_options::overwrite_existing);
  EXPECT_EQ(outcome(), "TAMPERED key_not_destroyed");
  open();  // destroys it again
  close();
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, NobodyIsToldThatAKeyIsGoneWhichIsThere) {
  exchange_of("alice");
  attack("CREATE TRIGGER t BEFORE UPDATE ON kek BEGIN SELECT RAISE(IGNORE); END", "keys.db");
  EXPECT_FALSE(log->erase(of_subject("alice")));
  attack("DROP TRIGGER t", "keys.db");
  close();
  open();  // what is decided is finished
  close();
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(ErasureTest, EachContentThatIsGoneIsNamedByExactlyItsLeaf) {
  const Appended gone = exchange_of("alice");
  const Appended other = exchange_of("bob");
  (void)log->erase(of_record(gone.id)).value();
  close();
  // One more content is taken away: the leaf does not speak of it.
  attack("UPDATE content SET dek = NULL, sealed = NULL WHERE id = " +
         std::to_string(other.index * 16));
  EXPECT_EQ(outcome(), "TAMPERED erased_without_leaf");
  EXPECT_EQ(verified().problems[0].index, other.index);
}

TEST_F(ErasureTest, AContentThatALeafCallsErasedIsNotThere) {
  const Appended gone = exchange_of("alice");
  const Appended other = exchange_of("alice");
  close();
  fs::copy_file(folder / "log.db", folder.string() + ".backup");
  open();
  (void)log->erase(of_record(gone.id)).value();
  close();
  // Somebody puts it back from a backup of the database.
  attack_without_triggers("ATTACH '" + folder.string() + ".backup" +
                          "' AS old; UPDATE content SET (dek, sealed) = (SELECT dek, sealed FROM "
                          "old.content AS o WHERE o.id = content.id) WHERE sealed IS NULL");
  EXPECT_EQ(outcome(), "TAMPERED erasure erasure");
  EXPECT_EQ(reader()->content(other.index, "request.body")->bytes, kPrompt);
}

TEST_F(ErasureTest, AnOlderLogIsBroughtUpToDateWhenItIsOpened) {
  const Appended gone = exchange_of("alice");
  close();
  attack(back_to_format(1));
  EXPECT_EQ(outcome(), "VALID");  // format 1, as it was
  EXPECT_EQ(reader()->content(gone.index, "request.body")->bytes, kPrompt);
  EXPECT_TRUE(reader()->holds()->empty());
  open();
  (void)log->erase(of_record(gone.id)).value();
  EXPECT_EQ(outcome(), "VALID");
  close();
  attack("DROP INDEX leaf_governance");
  EXPECT_EQ(outcome(), "TAMPERED schema");
}

}  // namespace
}  // namespace verbatim::audit::test
