#include "audit/prune.hpp"

#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/log.hpp"
#include "audit/queries.hpp"
#include "audit/read_connection.hpp"
#include "audit/retention.hpp"
#include "audit/tiles.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace verbatim::audit {

namespace {

Error invalid(std::string what) { return Error{Errc::invalid_input, std::move(what), "", ""}; }

/// Leaves of these types stay, all of them.
bool stays(std::string_view type) {
  return type == "log_created" || type == "key_rotated" || type == "key_retired" ||
         type == "timestamp" || type == "prune";
}
/// Of these the newest stays: later leaves were made under it.
bool newest_stays(std::string_view type) { return type == "config" || type == "environment"; }
/// Of what it is the newest: each upstream has an environment, and so has the machine.
std::string series_of(std::string_view type, const Json& leaf) {
  return std::string(type) + " " + text_at(leaf, "upstream");
}

/// Walks over leaves, oldest first, until one must stay.
class Planner {
 public:
  Planner(Queries& queries, std::int64_t before_us, std::int64_t now_us)
      : queries_(queries), before_us_(before_us), now_us_(now_us) {}

  Result<PrunePlan> plan() {
    const auto size = queries_.leaf_count();
    if (!size) return size.error();
    auto before = read_pruned(queries_, *size);
    if (!before) return before.error();
    plan_.before = std::move(*before);
    if (auto held = read_holds(); !held) return held.error();
    if (auto waiting = read_kept_requests(); !waiting) return waiting.error();
    if (auto found = find_minimum(*size); !found) return found.error();
    if (plan_.minimum_index <= plan_.before.minimum_index) {
      plan_.minimum_index = plan_.before.minimum_index;
      return std::move(plan_);
    }
    if (auto kept = choose_kept(); !kept) return kept.error();
    if (auto counted = count(); !counted) return counted.error();
    return std::move(plan_);
  }

 private:
  Result<void> read_holds() {
    auto holds = active_holds(queries_);
    if (!holds) return holds.error();
    for (const Hold& hold : *holds) {
      if (hold.scope.all) {
        return Error{Errc::unavailable, "a legal hold forbids it: " + hold.reason, hold.id.str(),
                     "release the hold first (verbatim hold release)"};
      }
      plan_.holds.push_back(hold.index);
      if (!hold.scope.subject.empty()) held_subjects_.insert(hold.scope.subject);
      if (hold.scope.record) held_records_.insert(*hold.scope.record);
    }
    return {};
  }

  /// Those that the last pruning kept, since their response stays: what speaks for them speaks for it.
  Result<void> read_kept_requests() {
    for (const std::uint64_t index : plan_.before.kept) {
      const auto bytes = queries_.leaf(index);
      if (!bytes) return bytes.error();
      const auto json = parse_json(*bytes);
      if (!json || text_at(*json, "type") != "request") continue;
      const auto id = parse_uuid(text_at(*json, "id"));
      if (!id) return id.error();
      unanswered_.emplace(*id, index);
      if (std::string why = request_blocked(*json); !why.empty()) kept_records_[*id] = why;
    }
    return {};
  }

  std::string request_blocked(const Json& request) const {
    if (held_subjects_.contains(text_at(request, "subject"))) return "is under a legal hold";
    const std::int64_t until = kept_until(request);
    if (until <= now_us_) return "";
    return "must be kept " + kept_until_text(until);
  }

  /// Why this leaf must stay; "" if it may go.
  std::string blocked(const LeafRow& row) const {
    if (row.time_us >= before_us_) {
      return "is of " + format_rfc3339(row.time_us).substr(0, 10);
    }
    const Uuid id = id_of(row);
    if (held_records_.contains(id)) return "is under a legal hold";
    const auto kept = kept_records_.find(id);
    if (kept != kept_records_.end()) return kept->second;
    if (row.type != "request") return "";
    const auto json = parse_json(as_text(row.bytes));
    return json ? request_blocked(*json) : "cannot be read";
  }

  static Uuid id_of(const LeafRow& row) {
    Uuid id;
    if (row.id.size() == id.bytes.size()) std::copy(row.id.begin(), row.id.end(), id.bytes.begin());
    return id;
  }
  void note_exchange(const LeafRow& row) {
    if (row.type == "request") unanswered_.emplace(id_of(row), row.index);
    if (row.type == "response") unanswered_.erase(id_of(row));
  }

  Result<void> find_minimum(std::uint64_t size) {
    const auto newest = queries_.newest_checkpoint();
    if (!newest) return newest.error();
    // An exchange that has not ended must be closed by its response.
    std::uint64_t stop = std::min(size, *newest ? (*newest)->open_from : 0);
    plan_.stopped_by =
        stop < size ? "leaf " + std::to_string(stop) + " is of an open exchange" : "the log ends";
    auto read = queries_.leaves(plan_.before.minimum_index, stop, [&](const LeafRow& row) {
      if (row.index % kTileWidth == 0) unanswered_at_tile_ = unanswered_;
      if (newest_stays(row.type)) {
        const auto json = parse_json(as_text(row.bytes));
        newest_[series_of(row.type, json ? *json : Json())].push_back(row.index);
      } else if (stays(row.type)) {
        kept_.push_back(row.index);
      } else if (const std::string why = blocked(row); !why.empty()) {
        stop = row.index;
        plan_.stopped_by = "leaf " + std::to_string(row.index) + " " + why;
        return false;
      }
      note_exchange(row);
      return true;
    });
    if (stop % kTileWidth == 0) unanswered_at_tile_ = unanswered_;
    plan_.minimum_index = stop / kTileWidth * kTileWidth;
    return read;
  }

  /// Those that stay, of before and of now.
  Result<void> choose_kept() {
    for (const std::uint64_t index : plan_.before.kept) {
      const auto bytes = queries_.leaf(index);
      if (!bytes) return bytes.error();
      const auto json = parse_json(*bytes);
      const std::string type = json ? text_at(*json, "type") : "";
      if (stays(type)) kept_.push_back(index);
      if (newest_stays(type)) newest_[series_of(type, *json)].push_back(index);
    }
    for (auto& [type, indices] : newest_) {
      std::erase_if(indices, [&](std::uint64_t index) { return index >= plan_.minimum_index; });
      const auto last = std::max_element(indices.begin(), indices.end());
      if (last != indices.end()) kept_.push_back(*last);
    }
    kept_.insert(kept_.end(), plan_.holds.begin(), plan_.holds.end());
    // An exchange is never cut in two: its response stays, and so does its request.
    for (const auto& [id, index] : unanswered_at_tile_) kept_.push_back(index);
    if (auto erasures = keep_erasures(); !erasures) return erasures;
    std::erase_if(kept_, [&](std::uint64_t index) { return index >= plan_.minimum_index; });
    std::sort(kept_.begin(), kept_.end());
    kept_.erase(std::unique(kept_.begin(), kept_.end()), kept_.end());
    if (kept_.size() > kKeptLeavesMax) {
      return Error{Errc::unsupported,
                   "more than " + std::to_string(kKeptLeavesMax) + " leaves would have to stay", "",
                   "prune less"};
    }
    plan_.kept = kept_;
    return {};
  }

  /// What was erased of a leaf that stays must go on being named.
  Result<void> keep_erasures() {
    const std::set<std::uint64_t> staying(kept_.begin(), kept_.end());
    return queries_.governance(0, [&](std::uint64_t index, std::string_view bytes) {
      const auto json = parse_json(bytes);
      if (!json || text_at(*json, "type") != "erasure") return true;
      const auto erased = read_erased(*json);
      const bool named =
          erased && std::any_of(erased->begin(), erased->end(),
                                [&](const auto& each) { return staying.contains(each.leaf); });
      if (named) kept_.push_back(index);
      return true;
    });
  }

  Result<void> count() {
    const std::uint64_t from = plan_.before.minimum_index;
    auto read = queries_.sizes(from, plan_.minimum_index,
                               [&](std::uint64_t index, std::uint64_t bytes, bool content) {
                                 if (std::binary_search(kept_.begin(), kept_.end(), index)) return;
                                 ++(content ? plan_.contents : plan_.leaves);
                                 plan_.bytes += bytes;
                               });
    if (!read) return read;
    // Kept by the last pruning, and not by this one.
    for (const std::uint64_t index : plan_.before.kept) {
      if (!std::binary_search(kept_.begin(), kept_.end(), index)) ++plan_.leaves;
    }
    return {};
  }

  Queries& queries_;
  std::int64_t before_us_, now_us_;
  std::set<std::string> held_subjects_;
  std::set<Uuid> held_records_;
  std::map<Uuid, std::string> kept_records_;  // whose request was kept -> why they must stay
  std::map<Uuid, std::uint64_t> unanswered_;  // requests before the leaf that is being read
  std::map<Uuid, std::uint64_t> unanswered_at_tile_;  // before the last whole tile
  std::vector<std::uint64_t> kept_;
  std::map<std::string, std::vector<std::uint64_t>> newest_;  // by series
  PrunePlan plan_;
};

}  // namespace

Result<Pruned> read_prune(std::uint64_t index, const Json& leaf) {
  const Json* const minimum = member(leaf, "minimum_index");
  const Json* const kept = member(leaf, "kept");
  if (minimum == nullptr || !minimum->is_number_unsigned() || kept == nullptr ||
      !kept->is_array() || kept->size() > kKeptLeavesMax) {
    return invalid("a prune leaf lacks minimum_index or kept");
  }
  Pruned pruned{minimum->get<std::uint64_t>(), {}, index};
  if (pruned.minimum_index > index || pruned.minimum_index % kTileWidth != 0) {
    return invalid("a prune leaf names a minimum index that is no whole number of earlier tiles");
  }
  for (const Json& each : *kept) {
    if (!each.is_number_unsigned() || each >= pruned.minimum_index ||
        (!pruned.kept.empty() && each <= *pruned.kept.rbegin())) {
      return invalid("a prune leaf names a kept leaf that there cannot be, or not in order");
    }
    pruned.kept.insert(each.get<std::uint64_t>());
  }
  return pruned;
}

Result<Pruned> read_pruned(Queries& queries, std::uint64_t size) {
  const auto newest = queries.newest_prune(size);
  if (!newest) return newest.error();
  if (!*newest) return Pruned();
  const auto json = parse_json((*newest)->second);
  if (!json) return json.error();
  return read_prune((*newest)->first, *json);
}

Result<Pruned> read_pruned(const std::filesystem::path& data_dir) {
  const auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) return connection.error();
  return (*connection)->read([](Queries& queries) -> Result<Pruned> {
    const auto size = queries.leaf_count();
    if (!size) return size.error();
    return read_pruned(queries, *size);
  });
}

Result<Digest> stored_leaf_hash(const std::filesystem::path& data_dir, std::uint64_t index) {
  const auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) return connection.error();
  return (*connection)->read([&](Queries& queries) { return queries.node(0, index); });
}

Result<std::vector<std::uint64_t>> leaves_with_id(const std::filesystem::path& data_dir,
                                                  const Uuid& id) {
  const auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) return connection.error();
  return (*connection)->read([&](Queries& queries) -> Result<std::vector<std::uint64_t>> {
    auto indices = queries.indices_of(id);
    if (indices && indices->empty()) {
      return Error{Errc::not_found, "there is no record " + id.str(), data_dir.string(), ""};
    }
    return indices;
  });
}

Result<PrunePlan> plan_prune(Queries& queries, std::int64_t before_us, std::int64_t now_us) {
  return Planner(queries, before_us, now_us).plan();
}

Result<PrunePlan> plan_prune(const std::filesystem::path& data_dir, std::int64_t before_us,
                             std::int64_t now_us) {
  const auto connection = ReadConnection::open(data_dir / "log.db");
  if (!connection) return connection.error();
  return (*connection)->read([&](Queries& queries) {
    return plan_prune(queries, before_us, now_us);
  });
}

LeafDraft prune_draft(std::int64_t before_us, const std::string& reason, const std::string& actor) {
  LeafDraft draft;
  draft.type = "prune";
  draft.fields = {{"before", format_rfc3339(before_us)}, {"reason", reason}, {"actor", actor}};
  return draft;
}

bool prunes(const LeafDraft& draft) { return draft.type == "prune"; }

Json prune_fields(const PrunePlan& plan, const LeafDraft& asked) {
  return {{"before", text_at(asked.fields, "before")},
          {"reason", text_at(asked.fields, "reason")},
          {"actor", text_at(asked.fields, "actor")},
          {"minimum_index", plan.minimum_index},
          {"kept", plan.kept},
          {"pruned_leaves", plan.leaves},
          {"pruned_contents", plan.contents}};
}

}  // namespace verbatim::audit
