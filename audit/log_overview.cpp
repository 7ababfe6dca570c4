#include "audit/log_overview.hpp"

#include "audit/json_member.hpp"
#include "audit/read_connection.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace verbatim::audit {

namespace {

std::string short_text(const Json& leaf, const char* name) {
  return text_at(leaf, name).substr(0, LogOverview::kTextBytesMax);
}

std::optional<SeenVerdict> verdict_in(std::uint64_t index, std::int64_t time_us, Bytes leaf) {
  const auto json = parse_json(as_text(leaf));
  if (!json || !json->is_object()) return std::nullopt;  // who verifies the log says so
  return SeenVerdict{index, time_us, short_text(*json, "record"), short_text(*json, "verdict"),
                     short_text(*json, "reason")};
}

}  // namespace

LogOverview::LogOverview(std::filesystem::path file, std::unique_ptr<ReadConnection> connection)
    : file_(std::move(file)), connection_(std::move(connection)) {}
LogOverview::~LogOverview() = default;

Result<std::unique_ptr<LogOverview>> LogOverview::open(const std::filesystem::path& data_dir) {
  const std::filesystem::path file = data_dir / "log.db";
  auto connection = ReadConnection::open(file);
  if (!connection) return connection.error();
  std::unique_ptr<LogOverview> overview(new LogOverview(file, std::move(*connection)));
  const auto size =
      overview->connection_->read([](Queries& queries) { return queries.leaf_count(); });
  if (!size) return size.error();
  Seen before;
  before.size = *size - std::min(*size, kLookBackLeaves);
  auto seen = overview->look(std::move(before), /*count=*/false);
  if (!seen) return seen.error();
  overview->seen_ = std::move(*seen);
  return overview;
}

Result<void> LogOverview::refresh() {
  auto seen = look(seen_, /*count=*/true);
  if (!seen) return seen.error();
  seen_ = std::move(*seen);
  return {};
}

/// From seen.size on.
Result<LogOverview::Seen> LogOverview::look(Seen seen, bool count) {
  auto looked = connection_->read([&](Queries&) -> Result<Seen> {
    Seen now = seen;  // this may run again
    Statement leaves(connection_->database(), R"(
        SELECT idx, time_us, CASE type WHEN 'replay_verdict' THEN bytes END FROM leaf
        WHERE idx >= ?1 ORDER BY idx)");
    Rows rows = leaves.run(seen.size);
    for (;;) {
      const auto row = rows.next();
      if (!row) return row.error();
      if (!*row) return now;
      now.size = rows.size(0) + 1;
      now.grown_us = rows.integer(1);
      if (rows.is_null(2)) continue;
      auto verdict = verdict_in(rows.size(0), rows.integer(1), rows.blob(2));
      if (!verdict) continue;
      const std::string& name = verdict->verdict;
      const bool known = now.verdicts.contains(name) || now.verdicts.size() < kNamesMax;
      if (count) ++now.verdicts[known ? name : "other"];
      now.recent.push_back(std::move(*verdict));
      if (now.recent.size() > kRecentMax) now.recent.erase(now.recent.begin());
    }
  });
  if (!looked) return looked;
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(file_, unknown);
  looked->file_bytes = unknown ? 0 : bytes;
  return looked;
}

}  // namespace verbatim::audit
