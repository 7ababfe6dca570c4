#include "replay/engines.hpp"

#include "replay/engine_check.hpp"

#include <utility>

namespace verbatim::replay {

Engines::Engines(std::vector<ModelPlace> places, local_engine::EngineOptions options,
                 EngineLoader loader)
    : options_(std::move(options)), loader_(std::move(loader)) {
  for (ModelPlace& place : places) {
    Place entry;
    entry.model = std::move(place);
    places_.push_back(std::move(entry));
  }
}

void Engines::hash_all() {
  for (Place& place : places_) {
    if (std::exchange(place.hashed, true)) continue;
    const auto print = local_engine::fingerprint(place.model.path);
    if (print) {
      place.weights_sha256 = print->weights_sha256.hex();
    } else {
      place.problem = print.error().message();
    }
  }
}

Result<std::shared_ptr<local_engine::Engine>> Engines::engine_of(Place& place) {
  if (place.engine != nullptr) return place.engine;
  auto engine = loader_(place.model.path, options_);
  if (!engine) return engine.error();
  if (const auto checked = check_engine(**engine); !checked) {
    failed_ = failed_ || checked.error().code == Errc::out_of_range;
    return checked.error();
  }
  ++checked_;
  place.engine = std::move(*engine);
  return place.engine;
}

Result<std::shared_ptr<local_engine::Engine>> Engines::vouched(const std::string& name) {
  for (Place& place : places_) {
    if (place.model.vouched && place.model.name == name) return engine_of(place);
  }
  return Error{Errc::not_found, "nobody vouches for weights under the name " + name, "",
               "if you know which weights it serves, give --engine " + name + "=PATH"};
}

Result<std::shared_ptr<local_engine::Engine>> Engines::with_weights(
    const std::string& weights_sha256) {
  hash_all();
  for (Place& place : places_) {
    if (place.weights_sha256 != weights_sha256) continue;
    return engine_of(place);
  }
  std::string tried;
  for (const Place& place : places_) {
    tried += (tried.empty() ? "" : ", ") + place.model.name + " has " +
             (place.weights_sha256.empty() ? place.problem : place.weights_sha256.substr(0, 16));
  }
  return Error{Errc::not_found, "no model with weights " + weights_sha256.substr(0, 16),
               tried.empty() ? "no model is known" : tried,
               "name its folder with --engine NAME=PATH"};
}

bool Engines::name_has_other_weights(const std::string& name, const std::string& weights_sha256) {
  hash_all();
  bool other = false;
  for (const Place& place : places_) {
    if (place.weights_sha256 == weights_sha256) return false;
    other = other || (place.model.name == name && !place.weights_sha256.empty());
  }
  return other;
}

}  // namespace verbatim::replay
