#include "replay/selection.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

Result<std::vector<Uuid>> matching(audit::LogReader& reader, const Selection& selection) {
  std::vector<Uuid> ids;
  for (const std::string& text : selection.ids) {
    const auto id = parse_uuid(text);
    if (!id) return id.error();
    ids.push_back(*id);
  }
  if (!ids.empty()) return ids;

  audit::RecordFilter filter;
  filter.model = selection.model;
  const auto timed = filter.set_times(selection.since, selection.until);
  if (!timed) return timed.error();
  const auto records = reader.list(filter);
  if (!records) return records.error();
  for (const auto& record : *records) ids.push_back(record.id);
  return ids;
}

}  // namespace

Result<std::vector<Uuid>> select(audit::LogReader& reader, const Selection& selection) {
  auto ids = matching(reader, selection);
  if (!ids) return ids.error();
  if (selection.sample == 0 || ids->size() <= selection.sample) return ids;

  const auto checkpoint = reader.checkpoint();
  if (!checkpoint) return checkpoint.error();
  const auto rank = [&](const Uuid& id) {
    static constexpr char kDomain[] = "verbatim/sample/v1";  // the terminating NUL is part of it
    return sha256({Bytes(reinterpret_cast<const std::uint8_t*>(kDomain), sizeof kDomain),
                   as_bytes(*checkpoint), Bytes(id.bytes)});
  };
  std::vector<std::pair<Digest, Uuid>> ranked;
  for (const Uuid& id : *ids) ranked.emplace_back(rank(id), id);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(selection.sample);
  std::vector<Uuid> sample;
  for (const auto& [hash, id] : ranked) sample.push_back(id);
  std::sort(sample.begin(), sample.end());  // UUIDv7: by time
  return sample;
}

}  // namespace verbatim::replay
