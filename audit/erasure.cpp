#include "audit/erasure.hpp"

#include "audit/json_member.hpp"
#include "audit/queries.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace verbatim::audit {

namespace {

constexpr std::size_t kReasonBytesMax = 1024;

Error invalid(std::string what) { return Error{Errc::invalid_input, std::move(what), "", ""}; }

/// Whom a record's leaves speak of; "" if they say nothing.
std::string subject_of(Queries& queries, const Uuid& record) {
  const auto indices = queries.indices_of(record);
  if (!indices || indices->empty()) return "";
  const auto bytes = queries.leaf(indices->front());
  const auto json = bytes ? parse_json(*bytes) : Result<Json>(bytes.error());
  return json ? text_at(*json, "subject") : "";
}

/// Of a cache hit: the record whose answer it gave. Nothing of any other record.
std::optional<Uuid> origin_of(Queries& queries, const Uuid& record) {
  const auto indices = queries.indices_of(record);
  if (!indices || indices->empty()) return std::nullopt;
  const auto bytes = queries.leaf(indices->back());
  const auto json = bytes ? parse_json(*bytes) : Result<Json>(bytes.error());
  if (!json || text_at(*json, "type") != "response") return std::nullopt;
  const auto origin = parse_uuid(text_at(*json, "origin"));
  return origin ? std::optional<Uuid>(*origin) : std::nullopt;
}

/// Adds those contents of a leaf that are there and that `wanted` says.
template <class Wanted>
Result<void> add_contents(Queries& queries, std::uint64_t index, Wanted&& wanted,
                          ErasureStep& step) {
  const auto bytes = queries.leaf(index);
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  if (!json) return json.error();
  const auto head = read_leaf_head(*json);
  if (!head) return head.error();
  ErasedContents named{index, {}};
  const std::uint64_t first = index * kContentsMax;
  auto read = queries.contents(first, first + kContentsMax, [&](const ContentRow& row) {
    if (!row.erased && row.id - first < head->contents.size() && wanted(row.id)) {
      named.fields.push_back(head->contents[row.id - first].field);
      step.content_ids.push_back(row.id);
    }
    return true;
  });
  if (!read) return read;
  if (!named.fields.empty()) step.erased.push_back(std::move(named));
  return {};
}

}  // namespace

Result<void> check_reason(const std::string& reason, const std::string& actor) {
  if (!reason.empty() && reason.size() <= kReasonBytesMax && actor.size() <= kReasonBytesMax) {
    return {};
  }
  return invalid("what the log is told to do has a reason, of at most 1024 bytes");
}

Json scope_json(const Scope& scope) {
  if (scope.record) return {{"record", scope.record->str()}};
  if (scope.all) return {{"all", true}};
  return {{"subject", scope.subject}};
}

Result<Scope> read_scope(const Json& json) {
  Scope scope;
  if (!json.is_object() || json.size() != 1) return invalid("a scope names one thing");
  if (json.contains("all")) {
    scope.all = true;
    return scope;
  }
  scope.subject = text_at(json, "subject");
  if (!scope.subject.empty()) return scope;
  const auto id = parse_uuid(text_at(json, "record"));
  if (!id) return id.error();
  scope.record = *id;
  return scope;
}

Result<std::vector<Hold>> active_holds(Queries& queries) {
  std::map<std::string, Hold> holds;  // by id
  Result<void> formed;
  auto read = queries.governance(0, [&](std::uint64_t index, std::string_view bytes) {
    const auto json = parse_json(bytes);
    const auto head = json ? read_leaf_head(*json) : Result<LeafHead>(json.error());
    if (!head) {
      formed = head.error();
      return false;
    }
    if (head->type == "legal_hold_released") holds.erase(text_at(*json, "hold"));
    if (head->type != "legal_hold") return true;
    const auto scope = read_scope(json->value("scope", Json()));
    // A hold that cannot be read holds everything: it was meant to keep something.
    holds.emplace(head->id.str(),
                  Hold{index, head->id, head->time_us, scope ? *scope : Scope{{}, "", true},
                       text_at(*json, "reason"), text_at(*json, "actor")});
    return true;
  });
  if (!read) return read.error();
  if (!formed) return formed.error();
  std::vector<Hold> active;
  for (auto& [id, hold] : holds) active.push_back(std::move(hold));
  std::sort(active.begin(), active.end(),
            [](const Hold& a, const Hold& b) { return a.index < b.index; });
  return active;
}

Result<void> check_holds(Queries& queries, const Scope& scope) {
  const auto holds = active_holds(queries);
  if (!holds) return holds.error();
  const std::string subject = scope.record ? subject_of(queries, *scope.record) : scope.subject;
  for (const Hold& hold : *holds) {
    const bool same_record = scope.record && hold.scope.record == scope.record;
    const bool same_subject = !subject.empty() && hold.scope.subject == subject;
    const bool held_record_of_subject =
        !scope.record && hold.scope.record && subject_of(queries, *hold.scope.record) == subject;
    if (hold.scope.all || same_record || same_subject || held_record_of_subject) {
      return Error{Errc::unavailable, "a legal hold forbids it: " + hold.reason, hold.id.str(),
                   "release the hold first (verbatim hold release)"};
    }
    // A hit can be computed again as long as its origin is there.
    const auto origin = hold.scope.record ? origin_of(queries, *hold.scope.record) : std::nullopt;
    if (!origin) continue;
    const bool is_wanted = scope.record
                               ? *origin == *scope.record
                               : !subject.empty() && subject_of(queries, *origin) == subject;
    if (!is_wanted) continue;
    return Error{
        Errc::unavailable,
        "a legal hold on a cache hit, which repeats what would go, forbids it: " + hold.reason,
        hold.id.str(), "release the hold first (verbatim hold release)"};
  }
  return {};
}

Result<std::vector<ErasedContents>> read_erased(const Json& leaf) {
  const auto list = leaf.find("erased");
  if (list == leaf.end() || !list->is_array()) return invalid("an erasure names no contents");
  std::vector<ErasedContents> erased;
  for (const Json& item : *list) {
    const auto index = item.is_object() ? item.find("leaf") : item.end();
    const auto fields = item.is_object() ? item.find("fields") : item.end();
    if (!item.is_object() || index == item.end() || !index->is_number_unsigned() ||
        fields == item.end() || !fields->is_array()) {
      return invalid("an erasure's item lacks leaf or fields");
    }
    ErasedContents contents{index->get<std::uint64_t>(), {}};
    for (const Json& field : *fields) {
      if (!field.is_string() || !is_field_name(field.get<std::string>())) {
        return invalid("an erasure names a field that there cannot be");
      }
      contents.fields.push_back(field.get<std::string>());
    }
    erased.push_back(std::move(contents));
  }
  return erased;
}

Json erased_json(const std::vector<ErasedContents>& erased) {
  Json list = Json::array();
  for (const ErasedContents& contents : erased) {
    list.push_back({{"leaf", contents.leaf}, {"fields", contents.fields}});
  }
  return list;
}

Result<ErasureStep> contents_of_record(Queries& queries, const Uuid& record) {
  const auto indices = queries.indices_of(record);
  if (!indices) return indices.error();
  if (indices->empty()) {
    return Error{Errc::not_found, "there is no record " + record.str(), "",
                 "see verbatim log list"};
  }
  const auto bytes = queries.leaf(indices->front());
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  if (!json) return json.error();
  if (indices->size() == 1 && text_at(*json, "type") == "request") {
    return Error{Errc::unavailable, "the exchange has not ended yet", record.str(),
                 "try again when it has its response"};
  }
  ErasureStep step;
  for (const std::uint64_t index : *indices) {
    auto added = add_contents(
        queries, index, [](std::uint64_t) { return true; }, step);
    if (!added) return added.error();
  }
  return step;
}

Result<ErasureStep> contents_named(Queries& queries, const std::vector<std::uint64_t>& ids) {
  ErasureStep step;
  std::optional<std::uint64_t> last;
  for (const std::uint64_t id : ids) {
    if (last == id / kContentsMax) continue;
    last = id / kContentsMax;
    const auto wanted = [&](std::uint64_t content) {
      return std::binary_search(ids.begin(), ids.end(), content);
    };
    if (auto added = add_contents(queries, *last, wanted, step); !added) return added.error();
  }
  return step;
}

Result<SubjectContents> contents_under_key(Queries& queries, std::int64_t kek, std::uint64_t from) {
  SubjectContents found;
  std::vector<std::uint64_t>& ids = found.ids;
  std::size_t leaves = 0;
  auto read = queries.content_ids_of_key(kek, from, [&](std::uint64_t id) {
    const bool another = ids.empty() || ids.back() / kContentsMax != id / kContentsMax;
    found.more = another && leaves == kErasedLeavesMax;
    if (found.more) return false;
    if (another) ++leaves;
    ids.push_back(id);
    return true;
  });
  if (!read) return read.error();
  return found;
}

Result<std::optional<std::uint64_t>> ErasureIndex::find(Queries& queries, std::uint64_t leaf,
                                                        const std::string& field) {
  const auto look = [&]() -> std::optional<std::uint64_t> {
    const auto number = fields_.find(field);
    if (number == fields_.end()) return std::nullopt;
    const auto at = std::lower_bound(named_.begin(), named_.end(), Named{leaf, number->second, 0});
    const bool there = at != named_.end() && at->leaf == leaf && at->field == number->second;
    return there ? std::optional(at->by) : std::nullopt;
  };
  auto found = look();
  if (found) return found;
  if (auto read = read_on(queries); !read) return read.error();
  return look();
}

Result<void> ErasureIndex::read_on(Queries& queries) {
  auto read = queries.governance(next_, [&](std::uint64_t index, std::string_view bytes) {
    next_ = index + 1;
    const auto json = parse_json(bytes);
    if (!json || text_at(*json, "type") != "erasure") return true;
    const auto erased = read_erased(*json);
    if (!erased) return true;
    for (const ErasedContents& contents : *erased) {
      for (const std::string& field : contents.fields) {
        const std::uint64_t number = fields_.emplace(field, fields_.size()).first->second;
        named_.push_back({contents.leaf, number, index});
      }
    }
    return true;
  });
  if (!read) return read;
  std::sort(named_.begin(), named_.end());
  return {};
}

}  // namespace verbatim::audit
