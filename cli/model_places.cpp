#include "cli/model_places.hpp"

#include "schema/canonical_json.hpp"
#include "schema/file.hpp"

namespace verbatim::cli {

void write_model_places(const std::filesystem::path& data,
                        const std::vector<replay::ModelPlace>& places) {
  Json json = Json::object();
  for (const auto& place : places) {
    json[place.name] = std::filesystem::absolute(place.path).lexically_normal().string();
  }
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const Result<void> written = write_file(data / "models.json", text, 0600);
  (void)written;
}

std::vector<replay::ModelPlace> read_model_places(const std::filesystem::path& data) {
  std::vector<replay::ModelPlace> places;
  const auto text = read_file(data / "models.json", 1 << 20);
  if (!text) return places;
  const auto json = parse_json(*text);
  if (!json || !json->is_object()) return places;
  for (const auto& [name, path] : json->items()) {
    if (path.is_string()) places.push_back({name, path.get<std::string>()});
  }
  return places;
}

}  // namespace verbatim::cli
