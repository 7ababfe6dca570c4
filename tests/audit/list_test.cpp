// What `log list` finds, against looking at every record; and that what is seldom is looked up.

#include "audit/database.hpp"
#include "audit/queries.hpp"
#include "audit/reader.hpp"
#include "tests/audit/fixture.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <random>

namespace verbatim::audit::test {
namespace {

class ListTest : public LogTest {
 protected:
  /// Exchanges that overlap, some open, of all ends, models and tenants, some at the same time.
  void fill(int count) {
    std::mt19937 random(7);
    std::vector<Appended> open_requests;
    for (int i = 0; i < count; ++i) {
      LeafDraft draft = request("{}", i % 17 == 3 ? "seldom" : i % 2 == 0 ? "even" : "odd");
      draft.fields["tenant"] = i % 3 == 0 ? "default" : i % 3 == 1 ? "a" : "b";
      open_requests.push_back(log->append_and_wait(std::move(draft)).value());
      if (random() % 3 != 0) clock.advance_us(1000);
      while (open_requests.size() > 5) {
        const std::size_t one = random() % open_requests.size();
        static constexpr const char* kEnds[] = {"complete", "complete", "cache_hit",
                                                "upstream_error", "timeout"};
        (void)log->append_and_wait(response(open_requests[one], "{}", kEnds[random() % 5])).value();
        open_requests.erase(open_requests.begin() + static_cast<std::ptrdiff_t>(one));
      }
      if (i % 20 == 10) {
        LeafDraft other;
        other.type = "environment";
        (void)log->append_and_wait(std::move(other)).value();
      }
    }
  }
  /// What must be found: every record of `all` (in the order of time) that fits.
  static std::vector<std::uint64_t> expected(const std::vector<RecordSummary>& all,
                                             const RecordFilter& filter) {
    std::vector<std::uint64_t> found;
    for (const RecordSummary& record : all) {
      if ((filter.type.empty() || record.type == filter.type) &&
          (filter.model.empty() || record.model == filter.model) &&
          (filter.tenant.empty() || record.tenant == filter.tenant) &&
          (filter.status.empty() || record.status == filter.status) &&
          (!filter.since_us || record.time_us >= *filter.since_us) &&
          (!filter.until_us || record.time_us < *filter.until_us))
        found.push_back(record.index);
    }
    if (filter.newest_first) std::reverse(found.begin(), found.end());
    if (filter.limit != 0 && found.size() > filter.limit) found.resize(filter.limit);
    return found;
  }
};

TEST_F(ListTest, EverySelectionIsWhatLookingAtAllRecordsFinds) {
  open();
  fill(200);
  const auto r = reader();
  RecordFilter everything;
  everything.type.clear();
  const auto all = r->list(everything).value();
  std::size_t compared = 0, not_empty = 0;
  for (const char* type : {"request", "", "environment", "response", "nothing"})
    for (const char* model : {"", "even", "seldom", "nobody"})
      for (const char* tenant : {"", "default", "a", "nobody"})
        for (const char* status :
             {"", "complete", "cache_hit", "upstream_error", "timeout", "open", "rejected"})
          for (const int window : {0, 1})
            for (const std::uint64_t limit : {0u, 1u, 7u})
              for (const bool newest_first : {false, true}) {
                RecordFilter filter;
                filter.type = type;
                filter.model = model;
                filter.tenant = tenant;
                filter.status = status;
                if (window == 1) {
                  filter.since_us = kNow + 20'000;
                  filter.until_us = kNow + 120'000;
                }
                filter.limit = limit;
                filter.newest_first = newest_first;
                std::vector<std::uint64_t> listed, placed;
                for (const auto& record : r->list(filter).value()) listed.push_back(record.index);
                for (const auto& place : r->places(filter).value()) placed.push_back(place.index);
                const auto right = expected(all, filter);
                ASSERT_EQ(listed, right)
                    << type << ' ' << model << ' ' << tenant << ' ' << status << ' ' << limit;
                ASSERT_EQ(placed, right);
                ++compared;
                if (!right.empty()) ++not_empty;
              }
  EXPECT_GT(not_empty, compared / 10);
}

TEST_F(ListTest, AnOlderLogIsListedTheSame) {
  open();
  fill(60);
  const auto list = [&](const char* status) {
    RecordFilter filter;
    filter.status = status;
    std::vector<std::uint64_t> found;
    for (const auto& record : reader()->list(filter).value()) found.push_back(record.index);
    return found;
  };
  const auto timeouts = list("timeout");
  ASSERT_FALSE(timeouts.empty());
  close();
  attack(back_to_format(5));
  EXPECT_EQ(list("timeout"), timeouts);  // without its index
}

TEST_F(ListTest, WhatIsSeldomIsLookedUp) {
  open();
  fill(60);
  close();
  const auto db = Database::open(folder / "log.db", Database::Mode::read).value();
  const auto plan = [&](const std::string& where) {
    sqlite3_stmt* statement = nullptr;
    const std::string sql = "EXPLAIN QUERY PLAN " + where;
    EXPECT_EQ(sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
    std::string text;
    while (sqlite3_step(statement) == SQLITE_ROW)
      text += reinterpret_cast<const char*>(sqlite3_column_text(statement, 3)) + std::string(";");
    sqlite3_finalize(statement);
    return text;
  };
  // Every statement of Queries, as SQLite keeps it while they are prepared.
  const Queries queries(db);
  std::vector<std::string> scans;
  for (sqlite3_stmt* s = sqlite3_next_stmt(db.get(), nullptr); s != nullptr;
       s = sqlite3_next_stmt(db.get(), s)) {
    const std::string found = plan(sqlite3_sql(s));
    if (found.find("SCAN") != std::string::npos)
      scans.push_back(std::string(sqlite3_sql(s)) + " -> " + found);
  }
  for (const std::string& scan : scans) {
    const bool small = scan.find("FROM checkpoint") != std::string::npos ||
                       scan.find("FROM canonical_output") != std::string::npos ||
                       scan.find("max(idx)") != std::string::npos;
    EXPECT_TRUE(small) << scan;
  }
}

}  // namespace
}  // namespace verbatim::audit::test
