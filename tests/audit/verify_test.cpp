#include "audit/verify.hpp"

#include "audit/merkle.hpp"
#include "audit/queries.hpp"
#include "audit/read_connection.hpp"
#include "audit/signer.hpp"
#include "schema/file.hpp"
#include "tests/audit/fixture.hpp"

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <map>
#include <thread>

namespace verbatim::audit::test {
namespace {

using Kinds = std::vector<std::string>;

/// A closed log of 20 exchanges, of which leaf 2 is the first request and leaf 42 the stop.
class VerifyTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    open();
    for (int i = 0; i < 20; ++i) exchange("body " + std::to_string(i));
    close();
  }
  /// The verdict and the kinds of problems, as one line.
  [[nodiscard]] std::string outcome(const VerifyOptions& with = {}) const {
    const VerifyReport report = verified(with);
    std::string text(verdict_name(report.verdict));
    for (const std::string& kind : kinds(report)) text += " " + kind;
    return text;
  }
  /// A copy of the whole folder, as a backup makes it.
  [[nodiscard]] std::filesystem::path backup() const {
    const auto copy = folder.string() + ".backup";
    std::filesystem::remove_all(copy);
    std::filesystem::copy(folder, copy, std::filesystem::copy_options::recursive);
    return copy;
  }
  void restore(const std::filesystem::path& from, const std::string& file) const {
    std::filesystem::copy_file(from / file, folder / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  [[nodiscard]] NoteSigningKey key() const { return seed_in(folder); }

  /// Recomputes nodes and newest root from the leaves, as an attacker would who knows the format.
  void recompute(bool sign_anew, const NoteSigningKey& with) const {
    std::string sql;
    CompactRange tree;
    const auto db = Database::open(folder / "log.db", Database::Mode::read);
    Queries queries(*db);
    const std::uint64_t size = queries.leaf_count().value();
    const auto read = queries.leaves(0, size, [&](const LeafRow& row) {
      std::string hashes;
      tree.append(leaf_hash(row.bytes), [&](const Digest& hash) { hashes += hash.hex(); });
      sql += "UPDATE leaf SET hashes = x'" + hashes + "' WHERE idx = " + std::to_string(row.index) +
             ";";
      return true;
    });
    ASSERT_TRUE(read);
    if (sign_anew) {
      const std::string note = sign_note(checkpoint_text({with.name, size, tree.root()}), with);
      sql += "DELETE FROM checkpoint; INSERT INTO checkpoint VALUES (" + std::to_string(size) +
             ", x'" + tree.root().hex() + "', " + std::to_string(size) + ", '" + note + "');";
    }
    attack_without_triggers(sql);
  }
};

TEST_F(VerifyTest, AWholeLogIsValid) {
  const VerifyReport report = verified();
  EXPECT_EQ(report.verdict, Verdict::valid);
  EXPECT_TRUE(report.problems.empty()) << report.problems[0].kind << report.problems[0].detail;
  EXPECT_EQ(report.size, 43u);
  EXPECT_EQ(report.checked_leaves, 43u);
  EXPECT_EQ(report.checked_contents, 40u);
  EXPECT_EQ(report.origin, "log.example/test");
  EXPECT_FALSE(report.key_was_given);
  VerifyOptions with;
  with.vkey = report.vkey;
  EXPECT_TRUE(verified(with).key_was_given);
  EXPECT_EQ(outcome(with), "VALID");
}

TEST_F(VerifyTest, ChangesNothingInTheFolder) {
  const auto contents = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files[entry.path().filename()] = read_file(entry.path(), 1 << 26).value();
    }
    return files;
  };
  const auto before = contents();
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_TRUE(before == contents());
}

TEST_F(VerifyTest, ALiveLogIsValidWhileItGrows) {
  open();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) exchange();
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(outcome(), "VALID");
  stop = true;
  writer.join();
}

TEST_F(VerifyTest, NothingThereIsAnError) {
  EXPECT_EQ(verify(folder / "nothing", {}).error().code, Errc::not_found);
  VerifyOptions with;
  with.vkey = "nonsense";
  EXPECT_EQ(verify(folder, with).error().code, Errc::invalid_input);
}

TEST_F(VerifyTest, AnEditedLeafIsNamed) {
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), 'complete', 'rejected') AS BLOB),"
      " status = 'rejected' WHERE idx = 5");
  EXPECT_EQ(outcome(), "TAMPERED leaf_hash checkpoint_root");
  EXPECT_EQ(verified().problems[0].index, 5u);
}

TEST_F(VerifyTest, AnEditedLastLeafOfAnOddTreeIsNamed) {
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), 'pid', 'pie')"
      " AS BLOB) WHERE idx = 42");
  EXPECT_EQ(outcome(), "TAMPERED leaf_hash checkpoint_root");
}

TEST_F(VerifyTest, AnEditedLeafWithRecomputedHashesContradictsTheCheckpoints) {
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), 'complete', 'rejected') AS BLOB),"
      " status = 'rejected' WHERE idx = 5");
  recompute(false, key());
  EXPECT_EQ(outcome(), "TAMPERED checkpoint_root");
}

TEST_F(VerifyTest, AnEditedLeafSignedAnewForksFromTheHighWaterMark) {
  attack_without_triggers(
      "UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), 'complete', 'rejected') AS BLOB),"
      " status = 'rejected' WHERE idx = 5");
  recompute(true, key());
  EXPECT_EQ(outcome(), "FORKED high_water_fork");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, ALogSignedAnewByAnotherKeyIsNotThisLog) {
  const NoteSigningKey other{"log.example/test", Ed25519PrivateKey(Ed25519Seed{1})};
  VerifyOptions with;
  with.checkpoint = reader()->checkpoint().value();
  recompute(true, other);
  EXPECT_EQ(outcome(), "TAMPERED checkpoint_key");
  // He edits leaf 0 too, so that the log names his key.
  attack_without_triggers("UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), '" +
                          key().verifier().str() + "', '" + other.verifier().str() +
                          "') AS BLOB) WHERE idx = 0");
  recompute(true, other);
  EXPECT_EQ(outcome(), "TAMPERED high_water_key");
  std::filesystem::remove(folder / "high-water");
  EXPECT_EQ(outcome(), "TRUNCATED high_water_missing");
  EXPECT_EQ(outcome(with), "TAMPERED given_checkpoint_key high_water_missing");
  with.checkpoint.clear();
  with.vkey = key().verifier().str();
  EXPECT_EQ(outcome(with), "TAMPERED key high_water_missing");
}

TEST_F(VerifyTest, ACutTailIsSeenByTheHighWaterMark) {
  attack_without_triggers(
      "DELETE FROM leaf WHERE idx >= 22; DELETE FROM checkpoint WHERE size > 22;"
      "DELETE FROM content WHERE id >= 22 * 16");
  EXPECT_EQ(outcome(), "TRUNCATED high_water");
  EXPECT_EQ(refusal().code, Errc::tampered);
  VerifyOptions with;
  with.checkpoint = read_high_water(folder).value().notes[0];
  EXPECT_EQ(outcome(with), "TRUNCATED given_checkpoint_ahead high_water");
  // The mark goes too: only who kept a checkpoint knows.
  std::filesystem::remove(folder / "high-water");
  EXPECT_EQ(outcome(with), "TRUNCATED given_checkpoint_ahead high_water_missing");
}

TEST_F(VerifyTest, ACarelesslyCutTailIsSeenInTheLogItself) {
  attack_without_triggers("DELETE FROM leaf WHERE idx >= 40");
  EXPECT_EQ(outcome(), "TRUNCATED leaf_missing content_extra high_water");
}

TEST_F(VerifyTest, ALeafTakenFromTheMiddleIsNamed) {
  attack_without_triggers("DELETE FROM leaf WHERE idx = 7");
  EXPECT_EQ(outcome(), "TAMPERED leaf_missing");
  attack_without_triggers("DELETE FROM leaf WHERE idx = 20");
  EXPECT_EQ(outcome(), "TAMPERED leaf_missing exchange");
}

TEST_F(VerifyTest, ADeletedLogIsSeenByTheHighWaterMark) {
  std::filesystem::remove(folder / "log.db");
  EXPECT_EQ(outcome(), "TRUNCATED log_missing");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, ARestoredBackupIsSeenByTheHighWaterMark) {
  const auto old = backup();
  open();
  exchange();
  close();
  restore(old, "log.db");
  EXPECT_EQ(outcome(), "TRUNCATED high_water");
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::tampered);
  EXPECT_NE(error.what.find("rolled back"), std::string::npos) << error.what;
}

TEST_F(VerifyTest, TwoHistoriesOfOneLogAreAFork) {
  const auto copy = backup();
  open();
  exchange("this");
  close();
  const std::string here = reader()->checkpoint().value();
  LogOptions there = options();
  there.data_dir = copy;
  Log::open(there, clock).value();  // appends start and stop
  LogOptions again = there;
  Log::open(again, clock).value();
  VerifyOptions with;
  with.checkpoint = LogReader::open(copy).value()->checkpoint().value();
  EXPECT_EQ(outcome(with), "FORKED given_checkpoint_fork");
  // The other history's database in this folder:
  restore(copy, "log.db");
  EXPECT_EQ(outcome(), "FORKED high_water_fork");
  with.checkpoint = here;
  EXPECT_EQ(outcome(with), "FORKED given_checkpoint_fork high_water_fork");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, AForkedCheckpointAmongTheStoredOnesIsEvidence) {
  Digest root;
  root.bytes[0] = 1;
  const std::string note = sign_note(checkpoint_text({key().name, 20, root}), key());
  attack_without_triggers("UPDATE checkpoint SET note = '" + note + "', root = x'" + root.hex() +
                          "' WHERE size = 20");
  EXPECT_EQ(outcome(), "FORKED checkpoint_fork");
}

TEST_F(VerifyTest, AnotherLogsDatabaseIsNotThisLog) {
  LogOptions other = options();
  other.data_dir = folder.string() + ".other";
  std::filesystem::remove_all(other.data_dir);
  { auto swapped = Log::open(other, clock).value(); }
  restore(other.data_dir, "log.db");
  EXPECT_EQ(outcome(), "TAMPERED keys_id high_water_key");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, AnotherLogsKeysAreNotThisLogs) {
  LogOptions other = options();
  other.data_dir = folder.string() + ".other";
  std::filesystem::remove_all(other.data_dir);
  { auto swapped = Log::open(other, clock).value(); }
  const auto own = backup();
  restore(other.data_dir, "keys.db");
  EXPECT_EQ(outcome(), "TAMPERED keys_id");
  EXPECT_EQ(refusal().code, Errc::tampered);
  restore(other.data_dir, "master.key");
  EXPECT_EQ(outcome(), "TAMPERED keys_id");
  EXPECT_EQ(refusal().code, Errc::tampered);
  // One wrong master key is one problem, not one for each content.
  restore(own, "keys.db");
  EXPECT_EQ(outcome(), "TAMPERED master_key");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

// Rows outside of the tree: CHECKs stop nobody who holds the file.

constexpr const char* kAnyRow = "PRAGMA ignore_check_constraints = 1; ";
constexpr const char* kLeafAt =
    "INSERT INTO leaf (idx, id, type, time_us, status, model, route, cache, tenant, hashes, "
    "bytes) ";

TEST_F(VerifyTest, ARowOfNoLeafIsNamedAndNothingIsAppended) {
  const std::string leaf_like =
      "id, type, time_us, status, model, route, cache, tenant, hashes, bytes"
      " FROM leaf WHERE idx = 2";
  const std::string content_like = "kek, codec, dek, sealed FROM content WHERE id = 32";
  const auto whole = backup();
  for (const auto& [sql, expected] : std::map<std::string, std::string>{
           {kLeafAt + ("SELECT -1, " + leaf_like), "TAMPERED stray_row"},
           {kLeafAt + ("SELECT 9223372036854775807, " + leaf_like),
            "TAMPERED leaf_unsigned stray_row leaf_missing"},
           {"INSERT INTO content SELECT -5, " + content_like, "TAMPERED stray_row"},
           {"INSERT INTO content SELECT 9223372036854775807, " + content_like,
            "TRUNCATED content_extra"},
           {"INSERT INTO content SELECT 43 * 16, " + content_like, "TRUNCATED content_extra"},
           {"INSERT INTO checkpoint VALUES (0, x'00', 0, 'rubbish')", "TAMPERED stray_row"},
           {"INSERT INTO checkpoint VALUES (-1, x'00', -1, 'rubbish')", "TAMPERED stray_row"},
           {"INSERT INTO checkpoint VALUES (44, zeroblob(32), 0, 'rubbish')",
            "TAMPERED checkpoint_signature leaf_missing"}}) {
    attack_without_triggers(kAnyRow + sql);
    EXPECT_EQ(outcome(), expected) << sql;
    EXPECT_EQ(refusal().code, Errc::tampered) << sql;
    restore(whole, "log.db");
  }
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(VerifyTest, AForgedLeafBelowTheTreeIsNoLeaf) {
  const std::string id = "x'01a22e55000070008000000000000000'";
  const auto forge = [&](const std::string& type, const std::string& bytes) {
    return kLeafAt +
           ("SELECT -1, " + id + ", '" + type + "', " + std::to_string(kNow) +
            ", 'upstream_error', 'evil', NULL, NULL, 'victim', x'', CAST('" + bytes + "' AS BLOB)");
  };
  attack_without_triggers(kAnyRow + forge("prune", R"({"minimum_index":256,"kept":[]})"));
  const auto connection = ReadConnection::open(folder / "log.db").value();
  const auto found = connection->read([](Queries& queries) -> Result<bool> {
    auto prune = queries.newest_prune(100);
    if (!prune) return prune.error();
    return prune->has_value();
  });
  EXPECT_FALSE(found.value());
  attack_without_triggers(kAnyRow + std::string("UPDATE leaf SET type = 'request' WHERE idx = -1"));
  RecordFilter filter;
  filter.tenant = "victim";
  EXPECT_TRUE(reader()->list(filter)->empty());
  EXPECT_EQ(reader()->list({})->size(), 20U);
}

TEST_F(VerifyTest, ALeafFarBeyondIsNamedAndDoesNotKeepTheVerifier) {
  attack_without_triggers(
      kLeafAt + std::string("SELECT 10000000000, id, type, time_us, status, model, route, cache, "
                            "tenant, hashes, bytes FROM leaf WHERE idx = 42"));
  const std::string found = outcome();
  EXPECT_TRUE(found.starts_with("TAMPERED leaf_unsigned leaf_missing")) << found;
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, DroppedTriggersAreNamed) {
  attack("DROP TRIGGER leaf_only_pruned; CREATE TABLE mine (x)");
  EXPECT_EQ(outcome(), "TAMPERED trigger_missing schema");
}

TEST_F(VerifyTest, ATriggerThatSomebodyAddedIsNamedAndNothingIsAppended) {
  const std::string ignore = "CREATE TRIGGER t BEFORE UPDATE ON %s BEGIN SELECT RAISE(IGNORE); END";
  for (const auto& [file, table, found] :
       {std::tuple("log.db", "content", "TAMPERED schema"), {"keys.db", "kek", "TAMPERED keys"}}) {
    const std::string sql = std::string(ignore).replace(ignore.find("%s"), 2, table);
    attack(sql, file);
    EXPECT_EQ(outcome(), found) << file;
    const Error refused = refusal();
    EXPECT_EQ(refused.code, Errc::tampered) << file;
    EXPECT_NE(refused.what.find("trigger t"), std::string::npos) << refused.what;
    attack("DROP TRIGGER t", file);
  }
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(VerifyTest, TriggersRefuseWhatTheLogNeverDoes) {
  const auto refused = [&](const std::string& sql) {
    sqlite3* db = nullptr;
    sqlite3_open((folder / "log.db").c_str(), &db);
    const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    sqlite3_close(db);
    return code == SQLITE_CONSTRAINT;
  };
  EXPECT_TRUE(refused("UPDATE leaf SET status = 'x' WHERE idx = 3"));
  EXPECT_TRUE(refused("DELETE FROM leaf WHERE idx = 42"));
  EXPECT_TRUE(refused("INSERT OR REPLACE INTO leaf SELECT * FROM leaf WHERE idx = 3"));
  EXPECT_TRUE(
      refused("INSERT INTO leaf SELECT 99, id, type, time_us, status, model, route, cache,"
              " tenant, hashes, bytes FROM leaf WHERE idx = 3"));
  EXPECT_TRUE(
      refused("INSERT INTO leaf SELECT -1, id, type, time_us, status, model, route, cache,"
              " tenant, hashes, bytes FROM leaf WHERE idx = 3"));
  EXPECT_TRUE(refused("INSERT OR REPLACE INTO checkpoint SELECT * FROM checkpoint LIMIT 1"));
  EXPECT_TRUE(refused("UPDATE checkpoint SET note = ''"));
  EXPECT_TRUE(refused("INSERT OR REPLACE INTO content SELECT * FROM content LIMIT 1"));
  EXPECT_TRUE(refused("UPDATE content SET codec = 1 - codec"));
  EXPECT_TRUE(refused("DELETE FROM content"));
  EXPECT_EQ(outcome(), "VALID");
}

struct Flip {
  const char* column;  // what is changed
  const char* sql;
  const char* outcome;
};

class ColumnTest : public VerifyTest, public testing::WithParamInterface<Flip> {};

TEST_P(ColumnTest, AChangeInItIsNamed) {
  attack_without_triggers(GetParam().sql);
  EXPECT_EQ(outcome(), GetParam().outcome) << GetParam().sql;
}

// Flips one bit of the first byte of a BLOB column.
#define FLIPPED(column) column " = CAST(x'00' || substr(" column ", 2) AS BLOB)"

INSTANTIATE_TEST_SUITE_P(
    All, ColumnTest,
    testing::Values(
        Flip{"leaf_id", "UPDATE leaf SET " FLIPPED("id") " WHERE idx = 3", "TAMPERED leaf_columns"},
        Flip{"leaf_type", "UPDATE leaf SET type = 'start' WHERE idx = 3", "TAMPERED leaf_columns"},
        Flip{"leaf_time", "UPDATE leaf SET time_us = time_us + 1 WHERE idx = 3",
             "TAMPERED leaf_columns"},
        Flip{"leaf_status", "UPDATE leaf SET status = 'timeout' WHERE idx = 3",
             "TAMPERED leaf_columns"},
        Flip{"leaf_model", "UPDATE leaf SET model = 'other' WHERE idx = 2",
             "TAMPERED leaf_columns"},
        Flip{"leaf_route", "UPDATE leaf SET route = NULL WHERE idx = 2", "TAMPERED leaf_columns"},
        Flip{"leaf_cache", "UPDATE leaf SET cache = 'hit' WHERE idx = 3", "TAMPERED leaf_columns"},
        Flip{"leaf_tenant", "UPDATE leaf SET tenant = 'x' WHERE idx = 2", "TAMPERED leaf_columns"},
        Flip{"leaf_bytes", "UPDATE leaf SET " FLIPPED("bytes") " WHERE idx = 6",
             "TAMPERED leaf_format leaf_hash exchange checkpoint_root"},
        Flip{"node_leaf_level", "UPDATE leaf SET " FLIPPED("hashes") " WHERE idx = 4",
             "TAMPERED node_hash"},
        Flip{
            "node_inner_level",
            "UPDATE leaf SET hashes = CAST(substr(hashes, 1, 32) || x'00' || substr(hashes, 34) AS "
            "BLOB) WHERE idx = 7",
            "TAMPERED node_hash"},
        Flip{"node_gone", "UPDATE leaf SET hashes = substr(hashes, 1, 64) WHERE idx = 7",
             "TAMPERED node_missing"},
        Flip{"checkpoint_size", "UPDATE checkpoint SET size = 100 WHERE size = 43",
             "TAMPERED checkpoint_columns leaf_missing"},
        Flip{"checkpoint_root", "UPDATE checkpoint SET " FLIPPED("root") " WHERE size = 20",
             "TAMPERED checkpoint_columns"},
        Flip{"checkpoint_open_from", "UPDATE checkpoint SET open_from = 0 WHERE size = 20",
             "TAMPERED checkpoint_columns"},
        Flip{"checkpoint_note",
             "UPDATE checkpoint SET note = replace(note, char(10) || '20' || char(10), char(10) || "
             "'21' || char(10)) WHERE size = 20",
             "TAMPERED checkpoint_signature"},
        Flip{"content_kek", "UPDATE content SET kek = 77 WHERE id = 32", "TAMPERED content_key"},
        Flip{"content_codec", "UPDATE content SET codec = 1 - codec WHERE id = 32",
             "TAMPERED content_sealed"},
        Flip{"content_dek", "UPDATE content SET " FLIPPED("dek") " WHERE id = 32",
             "TAMPERED content_key"},
        Flip{"content_sealed", "UPDATE content SET " FLIPPED("sealed") " WHERE id = 32",
             "TAMPERED content_sealed"},
        Flip{"content_swapped",
             "UPDATE content SET sealed = (SELECT sealed FROM content WHERE id = 64), dek = "
             "(SELECT dek FROM content WHERE id = 64) WHERE id = 32",
             "TAMPERED content_key"},
        Flip{"content_gone", "DELETE FROM content WHERE id = 32", "TAMPERED content_missing"},
        Flip{"content_more",
             "INSERT INTO content SELECT 33, kek, codec, dek, sealed FROM content WHERE id = 32",
             "TAMPERED content_extra"},
        Flip{"canonical_output", "INSERT INTO canonical_output VALUES (zeroblob(32), 3, 0)",
             "TAMPERED canonical_output"}),
    [](const auto& flip) { return std::string(flip.param.column); });

TEST_F(VerifyTest, ContentsThatAreGoneWithoutAnErasureLeafWereTakenAway) {
  attack("UPDATE content SET sealed = NULL, dek = NULL");
  const VerifyReport report = verified();
  EXPECT_EQ(outcome(), "TAMPERED erased_without_leaf");
  EXPECT_EQ(report.erased, 40u);
}

TEST_F(VerifyTest, ADestroyedKeyWithoutAnErasureLeafWasTakenAway) {
  attack("UPDATE kek SET wrapped = NULL", "keys.db");
  const VerifyReport report = verified();
  EXPECT_EQ(outcome(), "TAMPERED erased_without_leaf");
  EXPECT_EQ(report.erased, 40u);
  EXPECT_EQ(reader()->content(2, "request.body").error().code, Errc::erased);
  EXPECT_TRUE(reader()->receipt(2));
}

TEST_F(VerifyTest, TornPagesAreNamed) {
  std::fstream file(folder / "log.db", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(std::streamoff{3} * 16'384);
  file << std::string(16'384, '\xa5');
  file.close();
  EXPECT_EQ(verified().verdict, Verdict::tampered);
  EXPECT_EQ(kinds(verified())[0], "database");
  std::filesystem::resize_file(folder / "log.db", 5000);
  EXPECT_EQ(verified().verdict, Verdict::tampered);
  std::ofstream(folder / "log.db")
      << "not a database at all, but long enough to have a header....." << std::string(200, 'x');
  EXPECT_EQ(outcome(), "TAMPERED database");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

TEST_F(VerifyTest, ANewerVersionIsRefusedByNameAndLeftAlone) {
  attack("CREATE TABLE later (x); PRAGMA user_version = " + std::to_string(kLogVersion + 1));
  EXPECT_EQ(verify(folder, {}).error().code, Errc::newer_version);
  EXPECT_EQ(refusal().code, Errc::newer_version);
  EXPECT_EQ(LogReader::open(folder).error().code, Errc::newer_version);
  attack("DROP TABLE later; PRAGMA user_version = " + std::to_string(kLogVersion));
  EXPECT_EQ(outcome(), "VALID");
  attack("PRAGMA user_version = 2", "keys.db");
  EXPECT_EQ(refusal().code, Errc::newer_version);
  EXPECT_EQ(outcome(), "VALID_UNWITNESSED contents_unchecked");  // nothing of the tree was changed
  EXPECT_NE(verified().contents_unchecked.find("newer"), std::string::npos);
}

TEST_F(VerifyTest, WhatIsNoFileIsNoDatabase) {
  std::filesystem::remove(folder / "log.db");
  ASSERT_EQ(::mkfifo((folder / "log.db").c_str(), 0600), 0);
  EXPECT_EQ(verify(folder, {}).error().code,
            Errc::invalid_input);  // and nobody waits for a writer to the pipe
  EXPECT_EQ(LogReader::open(folder).error().code, Errc::invalid_input);
  EXPECT_EQ(refusal().code, Errc::invalid_input);
}

TEST_F(VerifyTest, WhatIsNoFileBesideADatabaseIsRefused) {
  for (const char* name : {"log.db-journal", "log.db-wal", "log.db-shm", "keys.db-journal"}) {
    const auto path = folder / name;
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(refusal().code, Errc::invalid_input) << name;
    const auto report = verify(folder, {});
    EXPECT_TRUE(!report || report->verdict != Verdict::valid) << name;
    std::filesystem::remove(path);
  }
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(VerifyTest, AVersionNumberHidesNothing) {
  for (const std::int64_t version : {kLogVersion + 1, std::int64_t{INT32_MAX}}) {
    attack("PRAGMA user_version = " + std::to_string(version));
    EXPECT_EQ(verify(folder, {}).error().code, Errc::newer_version) << version;
    EXPECT_EQ(refusal().code, Errc::newer_version) << version;
  }
  for (const std::int64_t version : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{INT32_MIN}}) {
    attack("PRAGMA user_version = " + std::to_string(version));
    EXPECT_EQ(outcome(), "TAMPERED database") << version;
    EXPECT_EQ(refusal().code, Errc::tampered) << version;
  }
  for (std::int64_t version = 1; version < kLogVersion; ++version) {
    attack("PRAGMA user_version = " + std::to_string(version));
    // What the newest format added is not of this one; the last trigger came with format 5.
    EXPECT_EQ(outcome(), version < 5 ? "TAMPERED trigger_missing schema" : "TAMPERED schema");
  }
  attack("PRAGMA application_id = 0; PRAGMA user_version = " + std::to_string(kLogVersion));
  EXPECT_EQ(outcome(), "TAMPERED database");
  attack("PRAGMA user_version = 0");
  EXPECT_EQ(outcome(), "TAMPERED database");
}

TEST_F(VerifyTest, AWrongGivenKeyIsOneProblem) {
  VerifyOptions with;
  with.vkey =
      VerifierKey{"log.example/test", kNoteEd25519, Ed25519PrivateKey(Ed25519Seed{1}).public_key()}
          .str();
  const VerifyReport report = verified(with);
  EXPECT_EQ(outcome(with), "TAMPERED key");
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].detail.find(key().verifier().str()), std::string::npos);
  // The rest is judged all the same.
  attack_without_triggers("UPDATE leaf SET status = 'timeout' WHERE idx = 3");
  EXPECT_EQ(outcome(with), "TAMPERED key leaf_columns");
}

TEST_F(VerifyTest, ALogWithoutItsKeysIsWholeAndSaysThatContentsWereNotOpened) {
  for (const char* file : {"master.key", "keys.db"}) {
    const auto path = folder / file;
    std::filesystem::rename(path, folder.string() + ".backup");
    // Beside a key of the log the others should be there.
    EXPECT_EQ(outcome(), "VALID_UNWITNESSED contents_unchecked") << file;
    const VerifyReport report = verified();
    EXPECT_EQ(report.checked_contents, 0u);
    EXPECT_NE(report.contents_unchecked.find(file), std::string::npos) << report.contents_unchecked;
    VerifyOptions tree;
    tree.contents = false;
    EXPECT_EQ(outcome(tree), "VALID");
    std::filesystem::rename(folder.string() + ".backup", path);
  }
  EXPECT_EQ(verified().contents_unchecked, "");
  const auto copy = backup();
  for (const char* file : {"master.key", "keys.db", "log.key"}) {
    std::filesystem::remove(copy / file);
  }
  const VerifyReport given = verify(copy, {}).value();
  EXPECT_EQ(given.verdict, Verdict::valid);
  EXPECT_NE(given.contents_unchecked, "");
  std::ofstream(folder / "master.key") << "not a key";
  EXPECT_EQ(outcome(), "TAMPERED keys");
}

TEST_F(VerifyTest, ARecordIdIsNotUsedTwice) {
  open();
  const Appended first = log->append_and_wait(request("a")).value();
  LeafDraft again = request("b");
  again.id = first.id;
  (void)log->append_and_wait(again).value();
  (void)log->append_and_wait(response(first, "c")).value();
  EXPECT_EQ(outcome(), "TAMPERED record_id");
  const VerifyReport report = verified();
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].index, first.index + 1);
}

TEST_F(VerifyTest, AnOlderCheckpointIsAPrefix) {
  VerifyOptions with;
  with.checkpoint = reader()->checkpoint().value();
  open();
  exchange();
  close();
  EXPECT_EQ(outcome(with), "VALID");
  with.checkpoint[0] = 'x';
  EXPECT_EQ(verify(folder, with).error().code, Errc::invalid_input);
}

TEST_F(VerifyTest, AGivenCheckpointBeyondTheLogIsStale) {
  // The whole folder is put back, its high-water mark too.
  const auto old = backup();
  open();
  exchange();
  close();
  VerifyOptions with;
  with.checkpoint = reader()->checkpoint().value();
  for (const char* file : {"log.db", "keys.db", "high-water"}) restore(old, file);
  EXPECT_EQ(outcome(), "VALID");
  EXPECT_EQ(outcome(with), "STALE given_checkpoint_ahead");
}

TEST_F(VerifyTest, DoesNotSeeACutTailWithoutMarkOrCheckpoint) {
  // The limit of what a log can say of itself; why receipts, witnesses and exports matter.
  const auto old = backup();
  open();
  exchange();
  close();
  for (const char* file : {"log.db", "keys.db", "high-water"}) restore(old, file);
  EXPECT_EQ(outcome(), "VALID");
}

TEST_F(VerifyTest, ATornHighWaterSlotIsNoLoss) {
  std::fstream file(folder / "high-water", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(10);
  file << std::string(100, '\0');
  file.close();
  EXPECT_EQ(outcome(), "VALID");
  open();
  exchange();
  close();
  EXPECT_EQ(outcome(), "VALID");
  std::ofstream(folder / "high-water") << std::string(8192, '\n');
  EXPECT_EQ(outcome(), "TAMPERED high_water_damaged");
  EXPECT_EQ(refusal().code, Errc::tampered);
}

}  // namespace
}  // namespace verbatim::audit::test
