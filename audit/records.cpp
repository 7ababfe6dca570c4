#include "audit/records.hpp"

#include "schema/clock.hpp"

namespace verbatim::audit {

Result<void> RecordFilter::set_times(std::string_view since, std::string_view until) {
  const auto set = [](std::string_view text, std::optional<std::int64_t>& to) -> Result<void> {
    if (text.empty()) return {};
    const auto time = parse_rfc3339(text);
    if (!time) return time.error();
    to = *time;
    return {};
  };
  if (auto done = set(since, since_us); !done) return done;
  if (auto done = set(until, until_us); !done) return done;
  if (since_us && until_us && *since_us >= *until_us) {
    return Error{Errc::invalid_input, "no time lies between --since and --until",
                 std::string(since) + " to " + std::string(until),
                 "--until is the end, and later than --since"};
  }
  return {};
}

bool fits_but_for_status(const RecordFilter& filter, const RecordSummary& record) {
  return (filter.type.empty() || record.type == filter.type) &&
         (!filter.since_us || record.time_us >= *filter.since_us) &&
         (!filter.until_us || record.time_us < *filter.until_us) &&
         (filter.model.empty() || record.model == filter.model) &&
         (filter.tenant.empty() || record.tenant == filter.tenant);
}

Result<std::vector<RecordPlace>> RecordSource::places(const RecordFilter& filter) {
  const auto records = list(filter);
  if (!records) return records.error();
  std::vector<RecordPlace> found;
  for (const RecordSummary& record : *records) found.push_back({record.id, record.index});
  return found;
}

Error erased_error(std::uint64_t index, std::string_view field, std::optional<std::uint64_t> by) {
  return Error{Errc::erased,
               "the content was erased" +
                   (by ? ", as leaf " + std::to_string(*by) + " says" : std::string()),
               "leaf " + std::to_string(index) + ", " + std::string(field), ""};
}

}  // namespace verbatim::audit
