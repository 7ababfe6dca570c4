// Retention and pruning: what must be kept is kept, what goes is gone, and every proof stays.

#include "audit/prune.hpp"

#include "audit/backup.hpp"
#include "audit/checkpoint.hpp"
#include "audit/erasure.hpp"
#include "audit/export.hpp"
#include "audit/key_rotator.hpp"
#include "audit/merkle.hpp"
#include "audit/pruner.hpp"
#include "audit/retention.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <cstdlib>
#include <functional>

namespace verbatim::audit::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDay = 86'400'000'000;
const std::string kCanary = "CANARY-METADATA-51e0";

class PruneTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
  }
  using Change = std::function<void(LeafDraft& request)>;
  Appended exchange_with(const Change& change) {
    LeafDraft draft = request("{\"prompt\":\"hi\"}", kCanary);
    change(draft);
    const std::string subject = draft.subject;
    const Appended asked = log->append_and_wait(std::move(draft)).value();
    LeafDraft answered = response(asked, "answer");
    answered.subject = subject;
    (void)log->append_and_wait(std::move(answered)).value();
    clock.advance_us(1000);
    return asked;
  }
  /// Exchanges until the log has so many leaves.
  void grow(std::uint64_t size) {
    while (reader()->size().value() < size) exchange_with([](LeafDraft&) {});
  }
  static Change kept_for(std::uint64_t days) {
    return [days](LeafDraft& draft) {
      draft.fields["retention"] = retention_json({"hr", days, "Regulation 17"});
    };
  }
  Result<Appended> prune() {
    return log->append_and_wait(prune_draft(clock.now_us() - kDay, "policy", "tester"));
  }
  [[nodiscard]] PrunePlan plan() const {
    return plan_prune(folder, clock.now_us() - kDay, clock.now_us()).value();
  }
  [[nodiscard]] std::uint64_t minimum() const { return read_pruned(folder)->minimum_index; }
  Appended hold(const Scope& scope) {
    LeafDraft draft;
    draft.type = "legal_hold";
    draft.fields = {{"scope", scope_json(scope)}, {"reason", "case 17"}, {"actor", "tester"}};
    return log->append_and_wait(draft).value();
  }
  void override_for(const Scope& scope) {
    LeafDraft draft;
    draft.type = "retention_override";
    draft.fields = {
        {"scope", scope_json(scope)}, {"reason", "court order 12"}, {"actor", "tester"}};
    (void)log->append_and_wait(draft).value();
  }
  void release(const Uuid& id) {
    LeafDraft draft;
    draft.type = "legal_hold_released";
    draft.fields = {{"hold", id.str()}, {"reason", "closed"}, {"actor", "tester"}};
    (void)log->append_and_wait(draft).value();
  }
  [[nodiscard]] std::string outcome(const VerifyOptions& with = {}) const {
    const VerifyReport report = verified(with);
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }
  [[nodiscard]] std::vector<std::string> files_with(const std::string& text) const {
    std::vector<std::string> found;
    for (const auto& file : fs::recursive_directory_iterator(folder)) {
      if (!file.is_regular_file()) continue;
      const auto bytes = read_file(file.path(), 1u << 30);
      if (bytes && bytes->find(text) != std::string::npos) found.push_back(file.path().filename());
    }
    return found;
  }
  fs::path bundle() {
    ExportOptions with;
    with.out = folder.string() + ".bundle";
    fs::remove_all(with.out);
    EXPECT_TRUE(export_evidence(*reader(), with));
    return with.out;
  }
  static int run_script(const fs::path& bundle, const std::string& said) {
    const std::string command = "'" VERBATIM_PYTHON "' -I -B '" VERBATIM_SOURCE_DIR
                                "/audit/evidence/verify.py' '" +
                                bundle.string() + "' >'" + said + "' 2>&1";
    const int status = std::system(command.c_str());
    return WEXITSTATUS(status);
  }
};

TEST_F(PruneTest, OldLeavesGoAndEveryProofStays) {
  const Appended early = exchange_with([](LeafDraft&) {});
  grow(301);
  const std::string kept_note = reader()->signed_checkpoint().value();
  const std::string kept_receipt = reader()->receipt(early.index).value();
  grow(600);
  clock.advance_us(400 * kDay);
  const Appended late = exchange();
  EXPECT_FALSE(files_with(kCanary).empty());

  const Appended pruned = prune().value();
  EXPECT_EQ(minimum(), 512);
  const Json leaf = reader()->leaf(pruned.index)->json;
  EXPECT_EQ(leaf.at("kept"), Json::array({0}));
  EXPECT_EQ(leaf.at("pruned_leaves"), 511);
  close();

  VerifyOptions with;
  with.checkpoint = kept_note;
  const VerifyReport report = verified(with);
  EXPECT_EQ(report.verdict, Verdict::valid);
  EXPECT_EQ(report.pruned, 511);
  EXPECT_EQ(report.minimum_index, 512);
  EXPECT_FALSE(report.prune_unfinished);

  // Who kept a receipt has the leaf, and it is in the tree still.
  VerifyOptions receipts;
  receipts.vkey = reader()->vkey();
  EXPECT_EQ(verify_receipt(kept_receipt, receipts)->verdict, Verdict::valid);
  const std::uint64_t size = reader()->size().value();
  const auto proof = reader()->inclusion_proof(early.index, size).value();
  const auto head = parse_checkpoint_text(parse_note(reader()->checkpoint().value())->text).value();
  EXPECT_TRUE(verify_inclusion(early.index, size, stored_leaf_hash(folder, early.index).value(),
                               proof, head.root));
  EXPECT_TRUE(reader()->receipt(late.index));

  // What is gone says so.
  const Error gone = reader()->leaf(early.index).error();
  EXPECT_EQ(gone.code, Errc::erased);
  EXPECT_NE(gone.what.find("as leaf " + std::to_string(pruned.index)), std::string::npos);
  EXPECT_EQ(reader()->leaves_of(early.id).error().code, Errc::erased);
  EXPECT_EQ(leaves_with_id(folder, early.id).value().size(), 2);
  EXPECT_EQ(reader()->content(early.index, "request.body").error().code, Errc::erased);
  EXPECT_EQ(reader()->entries(0, 256).error().code, Errc::not_found);
  EXPECT_EQ(reader()->entries(1, 256).error().code, Errc::not_found);
  EXPECT_TRUE(reader()->tile({0, 0, 256}));
  for (const RecordSummary& record : reader()->list({}).value()) EXPECT_GE(record.index, 512);
}

TEST_F(PruneTest, NothingOfWhatWentIsInAnyFile) {
  grow(256);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  EXPECT_EQ(files_with(kCanary), std::vector<std::string>{});
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &db), SQLITE_OK);
  int contents = -1;
  sqlite3_exec(
      db,
      "SELECT count(*) FROM content WHERE id < 256 * 16 AND (dek IS NOT NULL OR sealed IS NOT "
      "NULL)",
      [](void* to, int, char** columns, char**) {
        *static_cast<int*>(to) = static_cast<int>(std::strtol(columns[0], nullptr, 10));
        return 0;
      },
      &contents, nullptr);
  sqlite3_close(db);
  EXPECT_EQ(contents, 0);
}

TEST_F(PruneTest, AMinimumPeriodKeepsItsRecordAndWhatFollows) {
  grow(300);
  exchange_with(kept_for(500));
  grow(600);
  clock.advance_us(400 * kDay);
  exchange();
  const PrunePlan refused = plan();
  EXPECT_EQ(refused.minimum_index, 256);
  EXPECT_NE(refused.stopped_by.find("must be kept until"), std::string::npos) << refused.stopped_by;
  ASSERT_TRUE(prune());
  EXPECT_EQ(minimum(), 256);
  // A day before its end, and the day after.
  clock.advance_us(99 * kDay);
  EXPECT_EQ(prune().error().code, Errc::invalid_input);
  clock.advance_us(2 * kDay);
  ASSERT_TRUE(prune());
  EXPECT_EQ(minimum(), 512);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, APeriodThatCannotBeReadNeverEnds) {
  exchange_with([](LeafDraft& draft) { draft.fields["retention"] = "three years"; });
  grow(256);
  clock.advance_us(40'000 * kDay);
  exchange();
  EXPECT_NE(plan().stopped_by.find("for ever"), std::string::npos) << plan().stopped_by;
}

TEST_F(PruneTest, OnlyWholeTilesOfWhatIsOldEnoughGo) {
  grow(200);
  clock.advance_us(2 * kDay);
  EXPECT_EQ(prune().error().code, Errc::invalid_input);
  grow(700);  // of today
  EXPECT_EQ(prune().error().code, Errc::invalid_input);
  EXPECT_NE(plan().stopped_by.find("leaf 200 is of"), std::string::npos) << plan().stopped_by;
  EXPECT_EQ(log->append_and_wait(prune_draft(clock.now_us(), "", "")).error().code,
            Errc::invalid_input);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, ALegalHoldBlocksIt) {
  grow(300);
  const Appended held = exchange_with([](LeafDraft& draft) {
    draft.subject = "alice";
    draft.fields["subject"] = "alice";
  });
  grow(600);
  clock.advance_us(2 * kDay);
  exchange();
  const Appended all = hold(Scope{{}, "", true});
  EXPECT_EQ(prune().error().code, Errc::unavailable);
  release(all.id);
  for (const Scope& scope : {Scope{held.id, "", false}, Scope{{}, "alice", false}}) {
    const Appended one = hold(scope);
    EXPECT_EQ(plan().minimum_index, 256);
    EXPECT_NE(plan().stopped_by.find("legal hold"), std::string::npos);
    release(one.id);
  }
  ASSERT_TRUE(prune());
  EXPECT_EQ(minimum(), 512);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, AHoldStaysWhenWhatCameBeforeItGoes) {
  const Appended held = hold(Scope{{}, "bob", false});
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  EXPECT_EQ(reader()->holds()->size(), 1);
  EXPECT_TRUE(reader()->leaf(held.index));
  EXPECT_EQ(outcome(), "VALID");
  // Blanked by somebody who holds the file, it is missed.
  close();
  attack("UPDATE leaf SET type = 'pruned', bytes = x'' WHERE idx = " + std::to_string(held.index));
  EXPECT_EQ(verified().verdict, Verdict::tampered);
}

TEST_F(PruneTest, AnOpenExchangeAndOneAcrossTheBoundary) {
  grow(301);
  const Appended open_one = log->append_and_wait(request("open")).value();
  grow(520);
  clock.advance_us(2 * kDay);
  exchange();
  EXPECT_EQ(plan().minimum_index, 256);
  EXPECT_NE(plan().stopped_by.find("open exchange"), std::string::npos);
  ASSERT_TRUE(log->append_and_wait(response(open_one, "late")));
  ASSERT_TRUE(prune());
  EXPECT_EQ(minimum(), 512);
  // Its response is there, and so is its request: an exchange is not cut in two.
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_TRUE(read_pruned(folder)->kept.contains(open_one.index));
  EXPECT_TRUE(reader()->content(open_one.index, "request.body"));
  EXPECT_EQ(reader()->leaves_of(open_one.id)->size(), 2u);
  const fs::path out = bundle();
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  EXPECT_EQ(run_script(out, (folder / "said").string()), 0)
      << read_file(folder / "said", 1 << 20).value();
}

TEST_F(PruneTest, WhatHoldsARequestThatWasKeptHoldsItsResponse) {
  grow(301);
  LeafDraft draft = request("open");
  draft.subject = "alice";
  draft.fields["subject"] = "alice";
  const Appended asked = log->append_and_wait(std::move(draft)).value();
  grow(520);
  clock.advance_us(2 * kDay);
  exchange();
  LeafDraft answer = response(asked, "late");
  answer.subject = "alice";
  const Appended answered = log->append_and_wait(std::move(answer)).value();
  ASSERT_TRUE(prune());
  EXPECT_EQ(minimum(), 512);
  grow(900);
  clock.advance_us(2 * kDay);
  exchange();
  // A hold on whoever asked, set after the first pruning.
  const Appended held = hold(Scope{{}, "alice", false});
  EXPECT_EQ(plan().stopped_by, "leaf " + std::to_string(answered.index) + " is under a legal hold");
  release(held.id);
  ASSERT_TRUE(prune());
  EXPECT_GT(minimum(), answered.index);
  // Both are gone now.
  EXPECT_FALSE(read_pruned(folder)->kept.contains(asked.index));
  EXPECT_EQ(reader()->leaf(asked.index).error().code, Errc::erased);
  EXPECT_EQ(outcome(), "VALID");
  const fs::path out = bundle();
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  EXPECT_EQ(run_script(out, (folder / "said").string()), 0);
}

TEST_F(PruneTest, ErasuresAndKeyChangesBeforeAndAfterHoldTogether) {
  const Appended first = exchange_with([](LeafDraft&) {});
  const Appended second = exchange_with([](LeafDraft&) {});
  ASSERT_TRUE(log->erase({Scope{first.id, "", false}, "test", "tester"}));  // the leaf goes as well
  const std::string old_key = log->vkey();
  ASSERT_TRUE(log->append_and_wait(rotate_key("yearly", "tester")));
  grow(300);
  ASSERT_TRUE(log->erase({Scope{second.id, "", false}, "test", "tester"}));  // the leaf stays
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  VerifyOptions with;
  with.vkey = old_key;
  EXPECT_EQ(outcome(with), "VALID");
  const VerifyReport elsewhere = verify(bundle(), with).value();
  EXPECT_EQ(elsewhere.verdict, Verdict::valid);
  // What was erased and then pruned is counted as pruned, in the log as in its bundle.
  EXPECT_EQ(elsewhere.erased, verified(with).erased);
  // The log goes on, from a start too.
  close();
  open();
  exchange();
  EXPECT_EQ(outcome(with), "VALID");
}

TEST_F(PruneTest, ItIsDoneAgainAndTheConfigurationInForceStays) {
  const auto configure = [&] {
    LeafDraft draft;
    draft.type = "config";
    draft.fields = {{"mode", "strict"}};
    draft.contents = {{"config", "{}"}};
    return log->append_and_wait(draft).value();
  };
  configure();
  const Appended in_force = configure();
  grow(300);
  const Appended later = configure();
  grow(600);
  clock.advance_us(2 * kDay);
  exchange();
  // The first time less.
  const std::int64_t middle = reader()->leaf(300)->json.at("time").empty() ? 0 : kNow + 150'000;
  const Appended once = log->append_and_wait(prune_draft(middle, "policy", "tester")).value();
  EXPECT_EQ(minimum(), 256);
  EXPECT_EQ(reader()->leaf(once.index)->json.at("kept"), Json::array({0, in_force.index}));
  EXPECT_TRUE(reader()->content(in_force.index, "config"));
  EXPECT_EQ(outcome(), "VALID");
  const Appended twice = prune().value();
  // And the request whose response is the first leaf that stays.
  EXPECT_EQ(reader()->leaf(twice.index)->json.at("kept"), Json::array({0, later.index, 511}));
  EXPECT_EQ(reader()->leaf(in_force.index).error().code, Errc::erased);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, WhatALeafThatStaysContainedGoesByAnErasureAlone) {
  LeafDraft draft;
  draft.type = "config";
  draft.fields = {{"mode", "strict"}};
  draft.contents = {{"config", "{}"}};
  const Appended erased = log->append_and_wait(draft).value();
  const ErasureReport report = log->erase({Scope{erased.id, "", false}, "test", "tester"}).value();
  draft.type = "environment";
  draft.contents = {{"facts", "{}"}};
  const Appended there = log->append_and_wait(draft).value();
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  const Appended pruned = prune().value();
  EXPECT_EQ(reader()->leaf(pruned.index)->json.at("kept"),
            Json::array({0, erased.index, report.leaves.at(0), there.index, 255}));
  EXPECT_EQ(outcome(), "VALID");
  const fs::path out = bundle();
  EXPECT_EQ(verify(out, {})->verdict, Verdict::valid);
  EXPECT_EQ(run_script(out, (folder / "said").string()), 0);
  close();
  attack_without_triggers("UPDATE content SET dek = NULL, sealed = NULL WHERE id / 16 = " +
                          std::to_string(there.index));
  EXPECT_EQ(outcome(), "TAMPERED erased_without_leaf");
}

TEST_F(PruneTest, TheNewestEnvironmentOfEachUpstreamStaysAndSoDoTimeStamps) {
  const auto note = [&](const char* type, Json fields) {
    LeafDraft draft;
    draft.type = type;
    draft.fields = std::move(fields);
    return log->append_and_wait(draft).value().index;
  };
  note("environment", {{"facts", {{"cpu", "a"}}}});
  const auto one = note("environment", {{"upstream", "one"}, {"facts", {{"version", "1"}}}});
  note("environment", {{"upstream", "two"}, {"facts", {{"version", "1"}}}});
  const auto machine = note("environment", {{"facts", {{"cpu", "b"}}}});
  const auto two = note("environment", {{"upstream", "two"}, {"facts", {{"version", "2"}}}});
  const auto stamp = note("timestamp", {{"made", "up"}});
  grow(600);
  clock.advance_us(2 * kDay);
  exchange();
  const Json kept = Json::array({0, one, machine, two, stamp});
  for (const std::uint64_t minimum_index : {512, 768}) {
    const Appended pruned = prune().value();
    const Json leaf = reader()->leaf(pruned.index)->json;
    EXPECT_EQ(leaf.at("minimum_index"), minimum_index);
    for (const Json& index : kept) {
      EXPECT_TRUE(std::find(leaf.at("kept").begin(), leaf.at("kept").end(), index) !=
                  leaf.at("kept").end())
          << index;
    }
    grow(800);
    clock.advance_us(2 * kDay);
    exchange();
  }
}

TEST_F(PruneTest, AColumnOfWhatWentSaysNothing) {
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  close();
  for (const char* said : {"type = 'request'", "status = 'complete'", "model = 'other'",
                           "route = 'openai.chat'", "cache = 'hit'", "tenant = 't'"}) {
    const fs::path before = folder.string() + ".before";
    fs::copy(folder, before, fs::copy_options::recursive);
    attack_without_triggers("UPDATE leaf SET " + std::string(said) + " WHERE idx = 7");
    EXPECT_EQ(outcome(), "TAMPERED leaf_columns") << said;
    fs::remove_all(folder);
    fs::rename(before, folder);
  }
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, ACrashInBetweenIsMendedAtTheNextStart) {
  grow(600);
  clock.advance_us(2 * kDay);
  exchange();
  close();
  {
    // What a process does that is killed after the leaf and the first rows.
    auto signer = FileSigner::open(folder).value();
    auto keys = Keys::open(folder, Keys::Mode::write).value();
    auto store = Store::open(folder / "log.db", DurabilityMode::relaxed, false).value();
    const auto size = store->queries().leaf_count().value();
    const auto chain = read_key_chain(store->queries(), size).value();
    auto state = recover(store->queries(), chain, signer->last(), keys->id()).value();
    BatchWriter writer(std::move(store), std::move(signer), *keys, std::move(state));
    Pruner pruner(writer);
    UuidGenerator ids(clock);
    ASSERT_TRUE(pruner.begin(plan(), prune_draft(clock.now_us() - kDay, "policy", "tester"),
                             ids.next(), clock.now_us()));
    EXPECT_TRUE(verified().prune_unfinished);
    ASSERT_TRUE(pruner.step().value());
  }
  const VerifyReport halfway = verified();
  EXPECT_EQ(halfway.verdict, Verdict::valid);
  EXPECT_TRUE(halfway.prune_unfinished);
  EXPECT_EQ(halfway.pruned, 256);
  EXPECT_EQ(verify(bundle(), {})->verdict, Verdict::valid);
  open();
  const VerifyReport whole = verified();
  EXPECT_EQ(whole.verdict, Verdict::valid);
  EXPECT_FALSE(whole.prune_unfinished);
  EXPECT_EQ(whole.pruned, 511);
}

TEST_F(PruneTest, WhatNoLeafSaysWasPrunedIsMissing) {
  grow(300);
  close();
  // The tables refuse it, and without them it is found.
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &db), SQLITE_OK);
  const char* blank =
      "UPDATE leaf SET type = 'pruned', status = NULL, model = NULL, route = NULL, cache = NULL, "
      "tenant = NULL, bytes = x'' WHERE idx = 7";
  EXPECT_NE(sqlite3_exec(db, blank, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  attack_without_triggers(blank);
  EXPECT_EQ(verified().verdict, Verdict::tampered);
  EXPECT_EQ(kinds(verified()).front(), "leaf_missing");
  EXPECT_EQ(reader()->leaf(7).error().code, Errc::tampered);
}

TEST_F(PruneTest, WhatGoesAboveTheMinimumWasNotPruned) {
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  close();
  attack_without_triggers(
      "UPDATE leaf SET type = 'pruned', status = NULL, model = NULL, route = NULL, cache = NULL, "
      "tenant = NULL, bytes = x'' WHERE idx = 280");
  EXPECT_EQ(kinds(verified()).front(), "leaf_missing");
  EXPECT_EQ(reader()->leaf(255).error().code, Errc::erased);
  EXPECT_EQ(reader()->leaf(280).error().code, Errc::tampered);
}

TEST_F(PruneTest, HashesOfWhatWentAreHeldAgainstTheTree) {
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  close();
  attack_without_triggers(
      "UPDATE leaf SET hashes = CAST(x'00' || substr(hashes, 2) AS BLOB) WHERE idx = 100 AND type "
      "= 'pruned'");
  EXPECT_EQ(verified().verdict, Verdict::tampered);
}

TEST_F(PruneTest, BundlesSayWhatIsNotInThem) {
  grow(300);
  const std::string old = reader()->signed_checkpoint().value();
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  const fs::path out = bundle();
  const std::string said = (folder / "said").string();
  const VerifyReport report = verify(out, {}).value();
  EXPECT_EQ(report.verdict, Verdict::valid);
  EXPECT_EQ(report.pruned, 255);
  EXPECT_EQ(run_script(out, said), 0) << read_file(said, 1 << 20).value();
  EXPECT_NE(read_file(said, 1 << 20)->find("PRUNED     255 leaves below 256"), std::string::npos);
  EXPECT_FALSE(fs::exists(out / "tile/entries/000"));
  EXPECT_TRUE(fs::exists(out / "kept/0"));
  // An older checkpoint cannot be proved to have been pruned.
  ExportOptions with;
  with.out = folder.string() + ".other";
  with.note = old;
  EXPECT_EQ(export_evidence(*reader(), with).error().code, Errc::unavailable);
  // Another leaf in its place, or a leaf that should be there.
  const std::string leaf = read_file(out / "kept/0", 1 << 16).value();
  ASSERT_TRUE(write_file(out / "kept/0", leaf.substr(0, leaf.size() - 1) + " }"));
  EXPECT_EQ(verify(out, {})->verdict, Verdict::tampered);
  EXPECT_EQ(run_script(out, said), 1);
  fs::remove(out / "kept/0");
  EXPECT_EQ(verify(out, {})->verdict, Verdict::tampered);
  EXPECT_EQ(run_script(out, said), 1);
}

TEST_F(PruneTest, ABackupOfAPrunedLogVerifies) {
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  ASSERT_TRUE(prune());
  BackupOptions with;
  with.out = folder.string() + ".backup";
  ASSERT_TRUE(back_up(folder, with));
  EXPECT_EQ(verify(with.out, {})->pruned, 255);
}

TEST_F(PruneTest, ARecordIsNotErasedWithinItsPeriodUnlessSomebodySaysWhy) {
  const Appended asked = exchange_with(kept_for(183));
  clock.advance_us(182 * kDay);
  EraseRequest erase{Scope{asked.id, "", false}, "GDPR Art. 17", "tester"};
  const auto refused = log->erase(erase);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().what.find("class hr: Regulation 17"), std::string::npos);
  override_for(erase.scope);
  const ErasureReport report = log->erase(erase).value();
  EXPECT_EQ(report.contents, 2);
  // Leave for what was recorded before is none for what follows.
  EXPECT_EQ(log->erase({Scope{exchange_with(kept_for(183)).id, "", false}, "GDPR Art. 17", "t"})
                .error()
                .code,
            Errc::unavailable);
  EXPECT_EQ(reader()->leaf(report.leaves.at(0))->json.at("retention_override"), "court order 12");
  // Another one, when its time is over.
  const Appended other = exchange_with(kept_for(183));
  clock.advance_us(184 * kDay);
  EXPECT_EQ(log->erase({Scope{other.id, "", false}, "GDPR Art. 17", "tester"})->contents, 2);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, ASubjectIsErasedWholeOrNotAtAll) {
  const auto of_alice = [](std::uint64_t days) {
    return [days](LeafDraft& draft) {
      draft.subject = "alice";
      draft.fields["subject"] = "alice";
      if (days > 0) draft.fields["retention"] = retention_json({"hr", days, "Regulation 17"});
    };
  };
  const Appended free = exchange_with(of_alice(0));
  exchange_with(of_alice(183));
  EraseRequest erase{Scope{{}, "alice", false}, "GDPR Art. 17", "tester"};
  EXPECT_EQ(log->erase(erase).error().code, Errc::unavailable);
  EXPECT_TRUE(reader()->content(free.index, "request.body"));
  override_for(erase.scope);
  EXPECT_TRUE(log->erase(erase)->key_destroyed);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(PruneTest, OlderLogsTablesAreBroughtUpToDate) {
  grow(300);
  clock.advance_us(2 * kDay);
  exchange();
  for (const int version : {4, 3, 2, 1}) {
    close();
    attack(back_to_format(version));
    EXPECT_EQ(outcome(), "VALID") << version;
    open();
    EXPECT_EQ(outcome(), "VALID") << version;
  }
  ASSERT_TRUE(prune());
  EXPECT_EQ(outcome(), "VALID");
}

}  // namespace
}  // namespace verbatim::audit::test
