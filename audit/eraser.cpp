#include "audit/eraser.hpp"

#include "audit/retention.hpp"

#include <utility>

namespace verbatim::audit {

Result<void> Eraser::append(const EraseRequest& request, const ErasureStep& step,
                            std::optional<std::int64_t> kek, ErasureReport& report) {
  Queries& queries = writer_.store().queries();
  const auto leave = retention_override(queries, request.scope);
  if (!leave) return leave.error();
  for (const ErasedContents& contents : step.erased) {
    auto free = check_retention(queries, contents.leaf, clock_.now_us(), *leave);
    if (!free) return free;
  }
  LeafDraft draft;
  draft.type = "erasure";
  draft.fields = {{"scope", scope_json(request.scope)},
                  {"reason", request.reason},
                  {"actor", request.actor},
                  {"erased", erased_json(step.erased)}};
  if (kek) draft.fields["key"] = *kek;
  if (*leave) draft.fields["retention_override"] = (*leave)->reason;
  draft.erases = step.content_ids;
  const auto appended = writer_.write(std::move(draft), ids_.next(), clock_.now_us());
  if (!appended) return appended.error();
  report.leaves.push_back(appended->index);
  report.contents += step.content_ids.size();
  return {};
}

Result<void> Eraser::erase_record(const EraseRequest& request, ErasureReport& report) {
  Queries& queries = writer_.store().queries();
  if (auto free = check_holds(queries, request.scope); !free) return free;
  const auto step = contents_of_record(queries, *request.scope.record);
  if (!step) return step.error();
  if (step->content_ids.empty()) return {};
  return append(request, *step, std::nullopt, report);
}

Result<void> Eraser::erase_some(const EraseRequest& request, const std::vector<std::uint64_t>& ids,
                                ErasureReport& report) {
  Queries& queries = writer_.store().queries();
  if (auto free = check_holds(queries, request.scope); !free) return free;
  const auto step = contents_named(queries, ids);
  if (!step) return step.error();
  if (step->content_ids.empty()) return {};
  return append(request, *step, std::nullopt, report);
}

Result<bool> Eraser::destroy_key(const EraseRequest& request, std::int64_t kek, std::uint64_t from,
                                 ErasureReport& report) {
  Queries& queries = writer_.store().queries();
  if (auto free = check_holds(queries, request.scope); !free) return free.error();
  const auto left = contents_under_key(queries, kek, from);
  if (!left) return left.error();
  if (left->more) return false;
  const auto step = contents_named(queries, left->ids);
  if (!step) return step.error();
  if (auto appended = append(request, *step, kek, report); !appended) return appended.error();
  if (auto forgotten = keys_.forget(kek); !forgotten) return forgotten.error();
  report.key_destroyed = true;
  return true;
}

Result<void> Eraser::finish_interrupted() {
  std::vector<std::int64_t> keys;
  auto read = writer_.store().queries().governance(0, [&](std::uint64_t, std::string_view bytes) {
    const auto json = parse_json(bytes);
    const auto key = json && json->is_object() ? json->find("key") : Json::const_iterator();
    if (json && json->is_object() && json->value("type", "") == "erasure" && key != json->end() &&
        key->is_number_integer()) {
      keys.push_back(key->get<std::int64_t>());
    }
    return true;
  });
  if (!read) return read;
  for (const std::int64_t key : keys) {
    if (auto forgotten = keys_.forget(key); !forgotten) return forgotten;
  }
  return {};
}

}  // namespace verbatim::audit
