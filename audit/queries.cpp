#include "audit/queries.hpp"

#include "audit/prune.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::audit {

namespace {

Result<Digest> digest_of(Bytes bytes, const std::string& what) {
  Digest digest;
  if (bytes.size() != digest.bytes.size()) {
    return Error{Errc::tampered, what + " is not 32 bytes", "", ""};
  }
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

std::optional<std::string> optional_text(const Rows& rows, int column) {
  if (rows.is_null(column)) return std::nullopt;
  return rows.text(column);
}

LeafRow leaf_row(const Rows& rows, bool with_bytes) {
  LeafRow row;
  row.index = rows.size(0);
  row.id = rows.blob(1);
  row.type = rows.text(2);
  row.time_us = rows.integer(3);
  row.summary = {optional_text(rows, 4), optional_text(rows, 5), optional_text(rows, 6),
                 optional_text(rows, 7), optional_text(rows, 8)};
  if (with_bytes) {
    row.hashes = rows.blob(9);
    row.bytes = rows.blob(10);
  }
  return row;
}

/// Steps through all rows of a run.
template <class Each>
Result<void> each_row(Rows rows, Each&& each) {
  for (;;) {
    const auto row = rows.next();
    if (!row) return row.error();
    if (!*row || !each(rows)) return {};
  }
}

Result<std::uint64_t> one_number(Rows rows) {
  const auto row = rows.next();
  if (!row) return row.error();
  return rows.size(0);
}

Result<std::vector<StrayRow>> stray_rows(Rows rows) {
  std::vector<StrayRow> found;
  auto read = each_row(std::move(rows), [&](const Rows& row) {
    found.push_back({row.text(0), row.integer(1)});
    return true;
  });
  if (!read) return read.error();
  return found;
}

}  // namespace

Result<void> check_log_version(Database& db) {
  const auto application = db.integer("PRAGMA application_id");
  if (!application) return application.error();
  const auto version = db.integer("PRAGMA user_version");
  if (!version) return version.error();
  if (*application == 0 && *version == 0) {
    const auto tables = db.integer("SELECT count(*) FROM sqlite_schema");
    if (!tables) return tables.error();
    if (*tables == 0) {
      return Error{Errc::not_found, "the log is empty", db.path().string(), ""};
    }
  }
  if (*application != kLogApplicationId || *version < 1) {
    return Error{Errc::tampered, "the database is not a log of verbatim's", db.path().string(), ""};
  }
  if (*version > kLogVersion) {
    // Whoever holds the file can write this number; it makes the log unreadable here, and never VALID.
    return Error{Errc::newer_version,
                 "the log says that a newer verbatim wrote it, in format " +
                     std::to_string(*version) + "; this one knows " + std::to_string(kLogVersion),
                 db.path().string(),
                 "use a newer verbatim; if there was none here, someone changed the file"};
  }
  return {};
}

Result<std::uint64_t> Queries::leaf_count() { return one_number(leaf_count_.run()); }

Result<std::vector<StrayRow>> Queries::rows_below() { return stray_rows(rows_below_.run()); }

Result<std::vector<StrayRow>> Queries::rows_beyond(std::uint64_t size) {
  const auto last = static_cast<std::uint64_t>(INT64_MAX);
  return stray_rows(rows_beyond_.run(size, std::min(size, last / kContentsMax) * kContentsMax));
}

Result<std::optional<std::uint64_t>> Queries::next_leaf(std::uint64_t index) {
  Rows rows = next_leaf_.run(index);
  const auto row = rows.next();
  if (!row) return row.error();
  if (rows.is_null(0)) return std::optional<std::uint64_t>();
  return std::optional(rows.size(0));
}

Result<std::optional<StoredCheckpoint>> Queries::newest_checkpoint() {
  Rows rows = newest_checkpoint_.run();
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) return std::optional<StoredCheckpoint>();
  const auto root = digest_of(rows.blob(1), "the newest checkpoint's root");
  if (!root) return root.error();
  return std::optional(StoredCheckpoint{rows.size(0), *root, rows.size(2), rows.text(3)});
}

Result<std::string> Queries::leaf(std::uint64_t index) {
  Rows rows = leaf_.run(index);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) {
    return Error{Errc::not_found, "there is no leaf " + std::to_string(index), db_.path().string(),
                 ""};
  }
  std::string bytes = rows.text(0);
  if (!bytes.empty()) {
    if (as_text(rows.blob(1)) == as_text(leaf_hash(as_bytes(bytes)).view())) return bytes;
    return Error{Errc::tampered,
                 "leaf " + std::to_string(index) + " does not hash to its tree node",
                 db_.path().string(), "verify the log (verbatim verify)"};
  }
  const auto pruned = read_pruned(*this, static_cast<std::uint64_t>(INT64_MAX));
  if (!pruned && pruned.error().code != Errc::invalid_input) return pruned.error();
  const std::string name = "leaf " + std::to_string(index);
  if (!pruned || !pruned->covers(index)) {
    return Error{Errc::tampered, name + " is gone, and no leaf says that it was pruned",
                 db_.path().string(), "verify the log (verbatim verify)"};
  }
  return Error{Errc::erased,
               name + " was pruned, as leaf " + std::to_string(*pruned->leaf) + " says", "", ""};
}

Result<Digest> Queries::node(int level, std::uint64_t n) {
  // The row of the leaf that completes the subtree.
  const std::uint64_t leaf = ((n + 1) << level) - 1;
  Rows rows = node_.run(leaf, 32 * level + 1);
  const auto row = rows.next();
  if (!row) return row.error();
  const std::string name = "tree node " + std::to_string(n) + " of level " + std::to_string(level);
  if (!*row) return Error{Errc::tampered, name + " is missing", db_.path().string(), ""};
  return digest_of(rows.blob(0), name);
}

Result<void> Queries::leaves(std::uint64_t from, std::uint64_t to,
                             const std::function<bool(const LeafRow&)>& each) {
  return each_row(leaves_.run(from, to),
                  [&](const Rows& rows) { return each(leaf_row(rows, true)); });
}

Result<void> Queries::checkpoints(std::uint64_t from, std::uint64_t to,
                                  const std::function<bool(const StoredCheckpoint&, Bytes)>& each) {
  return each_row(checkpoints_.run(from, to), [&](const Rows& rows) {
    return each(StoredCheckpoint{rows.size(0), {}, rows.size(2), rows.text(3)}, rows.blob(1));
  });
}

Result<void> Queries::newest_checkpoints(const std::function<bool(const std::string& note)>& each) {
  return each_row(newest_checkpoints_.run(), [&](const Rows& rows) { return each(rows.text(0)); });
}

Result<void> Queries::contents(std::uint64_t from, std::uint64_t to,
                               const std::function<bool(const ContentRow&)>& each) {
  return each_row(contents_.run(from, to), [&](const Rows& rows) {
    return each(ContentRow{rows.size(0), rows.integer(1), static_cast<int>(rows.integer(2)),
                           rows.is_null(4), rows.blob(3), rows.blob(4)});
  });
}

Result<void> Queries::canonical_outputs(
    const std::function<bool(Bytes, std::uint64_t, std::int64_t)>& each) {
  return each_row(canonical_outputs_.run(), [&](const Rows& rows) {
    return each(rows.blob(0), rows.size(1), rows.integer(2));
  });
}

Result<std::vector<std::uint64_t>> Queries::indices_of(const Uuid& id) {
  std::vector<std::uint64_t> indices;
  auto read = each_row(indices_of_.run(Bytes(id.bytes)), [&](const Rows& rows) {
    indices.push_back(rows.size(0));
    return true;
  });
  if (!read) return read.error();
  return indices;
}

Result<std::optional<std::uint64_t>> Queries::first_index_of(const Uuid& id) {
  Rows rows = first_index_of_.run(Bytes(id.bytes));
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row || rows.is_null(0)) return std::optional<std::uint64_t>();
  return std::optional(rows.size(0));
}

Result<void> Queries::governance(std::uint64_t from,
                                 const std::function<bool(std::uint64_t, std::string_view)>& each) {
  return each_row(governance_.run(from),
                  [&](const Rows& rows) { return each(rows.size(0), as_text(rows.blob(1))); });
}

Result<void> Queries::key_changes(
    std::uint64_t size, const std::function<bool(std::uint64_t, std::string_view)>& each) {
  return each_row(key_changes_.run(size),
                  [&](const Rows& rows) { return each(rows.size(0), as_text(rows.blob(1))); });
}

Result<void> Queries::timestamps(const std::function<bool(std::uint64_t, std::string_view)>& each) {
  return each_row(timestamps_.run(),
                  [&](const Rows& rows) { return each(rows.size(0), as_text(rows.blob(1))); });
}

Result<void> Queries::retention_overrides(
    const std::function<bool(std::uint64_t, std::string_view)>& each) {
  return each_row(retention_overrides_.run(),
                  [&](const Rows& rows) { return each(rows.size(0), as_text(rows.blob(1))); });
}

Result<std::optional<std::pair<std::uint64_t, std::string>>> Queries::newest_prune(
    std::uint64_t size) {
  Rows rows = newest_prune_.run(size);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) return std::optional<std::pair<std::uint64_t, std::string>>();
  return std::optional(std::pair(rows.size(0), rows.text(1)));
}

Result<void> Queries::not_pruned(std::uint64_t from, std::uint64_t to,
                                 const std::function<bool(std::uint64_t)>& each) {
  return each_row(not_pruned_.run(from, to), [&](const Rows& rows) { return each(rows.size(0)); });
}

Result<void> Queries::sizes(std::uint64_t from, std::uint64_t to,
                            const std::function<void(std::uint64_t, std::uint64_t, bool)>& each) {
  auto read = each_row(leaf_sizes_.run(from, to), [&](const Rows& rows) {
    each(rows.size(0), rows.size(1), false);
    return true;
  });
  if (!read) return read;
  return each_row(content_sizes_.run(from * kContentsMax, to * kContentsMax),
                  [&](const Rows& rows) {
                    each(rows.size(0) / kContentsMax, rows.size(1), true);
                    return true;
                  });
}

Result<void> Queries::content_ids_of_key(std::int64_t kek, std::uint64_t from,
                                         const std::function<bool(std::uint64_t)>& each) {
  return each_row(content_ids_of_key_.run(kek, from),
                  [&](const Rows& rows) { return each(rows.size(0)); });
}

Result<void> Queries::leaves_by_time(const LeafSelection& wanted,
                                     const std::function<bool(const LeafRow&)>& each) {
  const bool request = wanted.type == "request";
  const auto choose = [&](Statement& oldest, Statement& newest, std::string_view value) {
    return each_row(
        (wanted.newest_first ? newest : oldest).run(wanted.since_us, wanted.until_us, value),
        [&](const Rows& rows) { return each(leaf_row(rows, false)); });
  };
  if (request && !wanted.model.empty()) return choose(by_model_, by_model_newest_, wanted.model);
  if (request && !wanted.tenant.empty() && wanted.tenant != "default")
    return choose(by_tenant_, by_tenant_newest_, wanted.tenant);
  if (!request && !wanted.type.empty() && wanted.type != "response")
    return choose(by_type_, by_type_newest_, wanted.type);
  return choose(by_time_, by_time_newest_, wanted.type);
}

Result<void> Queries::ends_of_status(std::string_view status,
                                     const std::function<bool(Bytes, std::int64_t)>& each) {
  return each_row(ends_of_status_.run(status),
                  [&](const Rows& rows) { return each(rows.blob(0), rows.integer(1)); });
}

Result<std::optional<LeafRow>> Queries::request_of(Bytes id) { return end_of(id, "request"); }
Result<std::optional<LeafRow>> Queries::response_of(Bytes id) { return end_of(id, "response"); }

Result<std::optional<LeafRow>> Queries::end_of(Bytes id, std::string_view type) {
  Rows rows = end_of_.run(id, type);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) return std::optional<LeafRow>();
  LeafRow found = leaf_row(rows, false);
  found.id = {};  // would dangle once the run ends
  return std::optional(std::move(found));
}

Result<std::optional<std::uint64_t>> Queries::canonical_output(const Digest& key,
                                                               std::int64_t now_us) {
  Rows rows = canonical_output_.run(key.view(), now_us);
  const auto row = rows.next();
  if (!row) return row.error();
  if (!*row) return std::optional<std::uint64_t>();
  return std::optional(rows.size(0));
}

}  // namespace verbatim::audit
