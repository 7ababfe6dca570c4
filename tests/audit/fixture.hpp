#pragma once
// What the log's tests share: a folder, a clock that stands still, and short verbs.

#include "audit/key_file.hpp"
#include "audit/log.hpp"
#include "audit/reader.hpp"
#include "audit/verify.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::audit::test {

inline constexpr std::int64_t kNow = 1'795'960'796'000'000;

/// The newest of a log's keys, where that is a seed, to sign what its owner would not.
inline NoteSigningKey seed_in(const std::filesystem::path& data_dir) {
  return parse_skey(read_key_file(data_dir / "log.key").value().front().text).value();
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override { folder = verbatim::test::fresh_dir(); }
  void TearDown() override {
    log.reset();
    std::filesystem::remove_all(folder);
    for (const char* beside : {".backup", ".begun", ".bundle", ".other"}) {
      std::filesystem::remove_all(folder.string() + beside);
    }
  }

  [[nodiscard]] LogOptions options() const {
    LogOptions options;
    options.data_dir = folder;
    options.origin = "log.example/test";
    options.listen = false;
    options.mode = DurabilityMode::relaxed;  // no test here cuts the power, and syncing is slow
    return options;
  }
  void open() { log = Log::open(options(), clock).value(); }
  void close() { log.reset(); }
  [[nodiscard]] Error refusal() const {
    auto opened = Log::open(options(), clock);
    return opened ? Error{} : opened.error();
  }

  static LeafDraft request(const std::string& body, const std::string& model = "demo") {
    LeafDraft draft;
    draft.type = "request";
    draft.fields = {{"mode", "strict"},
                    {"tenant", "default"},
                    {"model", {{"requested", model}}},
                    {"route", {{"api", "openai.chat"}, {"method", "POST"}}}};
    draft.contents = {{"request.body", body}};
    return draft;
  }
  static LeafDraft response(const Appended& to, const std::string& body,
                            const std::string& status = "complete") {
    LeafDraft draft;
    draft.type = "response";
    draft.id = to.id;
    draft.fields = {{"request", to.index}, {"status", status}, {"cache", "miss"}};
    draft.contents = {{"response.body", body}};
    return draft;
  }
  /// A whole exchange; returns its request leaf.
  Appended exchange(const std::string& body = "{\"prompt\":\"hi\"}",
                    const std::string& model = "demo") {
    const Appended asked = log->append_and_wait(request(body, model)).value();
    clock.advance_us(1000);
    (void)log->append_and_wait(response(asked, "answer to " + body)).value();
    clock.advance_us(1000);
    return asked;
  }
  [[nodiscard]] std::unique_ptr<LogReader> reader() const {
    return LogReader::open(folder).value();
  }
  [[nodiscard]] VerifyReport verified(const VerifyOptions& with = {}) const {
    return verify(folder, with).value();
  }
  /// The kinds of a report's problems, once each, in order of appearance.
  static std::vector<std::string> kinds(const VerifyReport& report) {
    std::vector<std::string> found;
    for (const Problem& problem : report.problems) {
      if (std::find(found.begin(), found.end(), problem.kind) == found.end()) {
        found.push_back(problem.kind);
      }
    }
    return found;
  }
  /// Runs SQL on a database of the folder as somebody would who holds the file and minds no rules.
  void attack(const std::string& sql, const std::string& file = "log.db") const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder / file).c_str(), &db), SQLITE_OK);
    char* message = nullptr;
    const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message);
    EXPECT_EQ(code, SQLITE_OK) << (message != nullptr ? message : "") << " in: " << sql;
    sqlite3_free(message);
    sqlite3_close(db);
  }
  /// What makes a log's tables those of an older format.
  static std::string back_to_format(int version) {
    std::string script;
    if (version < 6) {
      script +=
          "DROP INDEX leaf_model; DROP INDEX leaf_tenant; DROP INDEX leaf_status;"
          "DROP INDEX leaf_other;";
    }
    if (version < 5) {
      script +=
          "DROP INDEX leaf_prune; DROP INDEX leaf_retention; DROP TRIGGER leaf_only_pruned;"
          "CREATE TRIGGER leaf_no_update BEFORE UPDATE ON leaf\n"
          "BEGIN SELECT RAISE(FAIL, 'leaves are append-only'); END;";
    }
    if (version < 4) script += "DROP INDEX leaf_timestamp;";
    if (version < 3) script += "DROP INDEX leaf_keys;";
    if (version < 2) script += "DROP INDEX leaf_governance;";
    return script + "PRAGMA user_version = " + std::to_string(version);
  }
  /// The same without the triggers, which are put back afterwards.
  void attack_without_triggers(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder / "log.db").c_str(), &db), SQLITE_OK);
    std::vector<std::pair<std::string, std::string>> triggers;
    const auto remember = [](void* to, int, char** columns, char**) {
      static_cast<decltype(triggers)*>(to)->emplace_back(columns[0], columns[1]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'",
                           remember, &triggers, nullptr),
              SQLITE_OK);
    std::string script;
    for (const auto& [name, text] : triggers) script += "DROP TRIGGER " + name + ";";
    script += sql + ";";
    for (const auto& [name, text] : triggers) script += text + ";";
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(db, script.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << (message != nullptr ? message : "") << " in: " << sql;
    sqlite3_free(message);
    sqlite3_close(db);
  }

  std::filesystem::path folder;
  ManualClock clock{kNow};
  std::unique_ptr<Log> log;
};

}  // namespace verbatim::audit::test
