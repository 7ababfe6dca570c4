#include "replay/selection.hpp"

#include "audit/checkpoint.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

/// Named records must be there; a selection by time or model takes those up to the checkpoint.
Result<std::vector<Uuid>> matching(audit::RecordSource& reader, const Selection& selection,
                                   std::uint64_t tree_size) {
  std::vector<Uuid> ids;
  for (const std::string& text : selection.ids) {
    const auto id = parse_uuid(text);
    if (!id) return id.error();
    const auto leaves = reader.leaves_of(*id);
    if (!leaves && leaves.error().code != Errc::erased) return leaves.error();  // pruned: a verdict
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());  // UUIDv7: by time
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty()) return ids;

  audit::RecordFilter filter;
  filter.model = selection.model;
  filter.tenant = selection.tenant;
  const auto timed = filter.set_times(selection.since, selection.until);
  if (!timed) return timed.error();
  const auto places = reader.places(filter);
  if (!places) return places.error();
  for (const auto& place : *places) {
    if (place.index < tree_size) ids.push_back(place.id);
  }
  return ids;
}

Digest rank(const std::string& checkpoint_text, const Uuid& id) {
  static constexpr char kDomain[] = "verbatim/sample/v1";  // the terminating NUL is part of it
  return sha256({Bytes(reinterpret_cast<const std::uint8_t*>(kDomain), sizeof kDomain),
                 as_bytes(checkpoint_text), Bytes(id.bytes)});
}

}  // namespace

Result<Selected> select(audit::RecordSource& reader, const Selection& selection) {
  auto note = selection.checkpoint.empty() ? reader.checkpoint()
                                           : Result<std::string>(selection.checkpoint);
  if (!note) return note.error();
  const auto keys = reader.keys();
  if (!keys) return keys.error();
  const auto checkpoint = audit::open_checkpoint(*note, *keys);
  if (!checkpoint) {
    return Error{Errc::invalid_input, "this log's key did not sign the checkpoint", "--checkpoint",
                 "give what `verbatim checkpoint` printed for this log"};
  }
  auto ids = matching(reader, selection, checkpoint->size);
  if (!ids) return ids.error();
  Selected selected;
  selected.matching = ids->size();
  selected.checkpoint = *note;
  selected.tree_size = checkpoint->size;
  selected.root = checkpoint->root.hex();
  const bool all = selection.sample == 0 || ids->size() <= selection.sample;
  if (all && !selection.in_draw_order) {
    selected.ids = std::move(*ids);
    return selected;
  }
  const std::string drawn_by = audit::checkpoint_text(*checkpoint);
  std::vector<std::pair<Digest, Uuid>> ranked;
  for (const Uuid& id : *ids) ranked.emplace_back(rank(drawn_by, id), id);
  std::sort(ranked.begin(), ranked.end());
  if (!all) ranked.resize(selection.sample);
  for (const auto& [hash, id] : ranked) selected.ids.push_back(id);
  if (!selection.in_draw_order) std::sort(selected.ids.begin(), selected.ids.end());
  return selected;
}

std::string design_text(const Selection& selection, const Selected& selected) {
  std::string which;
  if (!selection.ids.empty()) which = " named by id";
  if (!selection.model.empty()) which += " that asked for " + selection.model;
  if (!selection.tenant.empty()) which += " of the tenant " + selection.tenant;
  if (!selection.since.empty()) which += " since " + selection.since;
  if (!selection.until.empty()) which += " until " + selection.until;
  const std::string where = " in the log of " + std::to_string(selected.tree_size) + " leaves";
  if (selected.ids.size() == selected.matching) {
    return (selected.matching == 1 ? "The one exchange"
                                   : "All " + std::to_string(selected.matching) + " exchanges") +
           which + where + ".";
  }
  return std::to_string(selected.ids.size()) + " of the " + std::to_string(selected.matching) +
         " exchanges" + which + where +
         ", drawn by the smallest SHA-256 of checkpoint and record id: a uniform sample, which "
         "everyone with the checkpoint draws again.";
}

}  // namespace verbatim::replay
