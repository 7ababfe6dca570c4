#include "replay/recorded_headers.hpp"

#include "schema/canonical_json.hpp"

namespace verbatim::replay {

Result<gateway::Fields> recorded_headers(audit::RecordSource& reader, std::uint64_t index) {
  const auto content = reader.content(index, "response.headers");
  if (!content) return content.error();
  gateway::Fields fields;
  const auto list = parse_json(content->bytes);
  const Error malformed{Errc::invalid_input, "response.headers is no list of names and values",
                        "leaf " + std::to_string(index), ""};
  if (!list || !list->is_array()) return malformed;
  for (const Json& pair : *list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return malformed;
    }
    fields.add(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return fields;
}

}  // namespace verbatim::replay
