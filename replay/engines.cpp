#include "replay/engines.hpp"

#include "replay/engine_check.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::replay {

using local_engine::Engine;

Engines::Engines(std::vector<ModelPlace> places, local_engine::EngineOptions options,
                 EngineLoader loader)
    : options_(std::move(options)), loader_(std::move(loader)) {
  for (ModelPlace& place : places) {
    Place entry;
    entry.model = std::move(place);
    entry.profile = options_.profile;
    places_.push_back(std::move(entry));
  }
}

Result<std::shared_ptr<Engine>> Engines::with_weights(const std::string& weights_sha256,
                                                      const std::string& name,
                                                      const std::string& recorded_profile) {
  const std::lock_guard lock(mutex_);
  const std::string& profile = known_profile(recorded_profile);
  for (Place& place : places_) {
    if (place.known || place.model.name != name) continue;
    place.profile = profile;
    if (!load(place)) {
      hash(place);
    } else if (place.weights_sha256 != weights_sha256) {
      place.engine.reset();  // not wanted now, and memory is dear
    }
  }
  Place* found = place_with(weights_sha256);
  if (found == nullptr) {
    for (Place& place : places_) hash(place);
    found = place_with(weights_sha256);
  }
  if (found != nullptr) return engine_of(under(*found, profile));
  // A model of the record's name that cannot be read may well be the one.
  for (const Place& place : places_) {
    if (place.model.name == name && place.weights_sha256.empty() && !place.absent)
      return Error{Errc::invalid_input, place.problem, name, "mend it, and run again"};
  }
  return Error{Errc::not_found, "no model with weights " + weights_sha256.substr(0, 16),
               places_.empty() ? "no model is known"
                               : "looked at " + std::to_string(places_.size()) + " models",
               "name its folder with --engine NAME=PATH"};
}

bool Engines::vouches_for(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
    return place.model.vouched && place.model.name == name;
  });
}

Result<std::shared_ptr<Engine>> Engines::vouched(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) {
    if (place.model.vouched && place.model.name == name)
      return engine_of(under(place, options_.profile));
  }
  return Error{Errc::not_found, "nobody vouches for weights under the name " + name, "",
               "if you know which weights it serves, give --engine " + name + "=PATH"};
}

Result<std::shared_ptr<Engine>> Engines::judging(const std::string& weights_sha256,
                                                 const std::string& name,
                                                 const std::string& profile) {
  return weights_sha256.empty() ? vouched(name) : with_weights(weights_sha256, name, profile);
}

Result<std::shared_ptr<Engine>> Engines::named(const std::string& name,
                                               const std::string& profile) {
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) {
    if (place.model.name == name) return engine_of(under(place, known_profile(profile)));
  }
  return Error{Errc::not_found, "no model is named " + name, "", ""};
}

Result<std::shared_ptr<Engine>> Engines::counterpart(const std::filesystem::path& path,
                                                     const std::string& backend,
                                                     const std::string& weights_sha256,
                                                     const std::string& profile) {
  const std::lock_guard lock(mutex_);
  const Place* own = path.empty() ? place_with(weights_sha256) : nullptr;
  if (path.empty() && own == nullptr)
    return Error{Errc::not_found, "no model has the weights " + weights_sha256.substr(0, 16), "",
                 ""};
  const std::filesystem::path& place = own == nullptr ? path : own->model.path;
  if (counterpart_ != nullptr && counterpart_path_ == place && counterpart_profile_ == profile)
    return counterpart_;
  auto options = options_;
  options.profile = profile;
  if (!backend.empty()) options.backend = backend;
  auto engine = loader_(place, options);
  if (!engine) return engine.error();
  counterpart_path_ = place;
  counterpart_profile_ = profile;
  counterpart_ = std::move(*engine);
  return counterpart_;
}

bool Engines::vouched_otherwise(const std::string& name, const std::string& weights_sha256) {
  const std::lock_guard lock(mutex_);
  bool others = false;
  for (Place& place : places_) {
    if (!place.model.vouched || place.model.name != name) continue;
    hash(place);
    if (place.weights_sha256 == weights_sha256) return false;
    others = true;
  }
  return others;
}

bool Engines::name_has_other_weights(const std::string& name, const std::string& weights_sha256) {
  const std::lock_guard lock(mutex_);
  bool other = false;
  for (Place& place : places_) {
    hash(place);
    if (place.weights_sha256 == weights_sha256) return false;
    other = other || (place.model.name == name && !place.weights_sha256.empty());
  }
  return other;
}

std::optional<ModelParts> Engines::parts_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) {
    if (place.model.name != name) continue;
    hash(place);
    if (!place.weights_sha256.empty()) return place.parts;
  }
  return std::nullopt;
}

bool Engines::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::size_t Engines::checked() const {
  const std::lock_guard lock(mutex_);
  return checked_;
}

Engines::Place* Engines::place_with(const std::string& weights_sha256) {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.known && place.weights_sha256 == weights_sha256;
  });
  return found == places_.end() ? nullptr : &*found;
}

Engines::Place& Engines::under(Place& place, const std::string& profile) {
  if (place.profile == profile) return place;
  for (Place& other : places_) {
    if (other.profile == profile && other.model.name == place.model.name &&
        other.model.path == place.model.path)
      return other;
  }
  Place added = place;
  added.profile = profile;
  added.engine.reset();
  added.broken.reset();
  added.checked = false;
  return places_.emplace_back(std::move(added));
}

const std::string& Engines::known_profile(const std::string& recorded) const {
  return local_engine::knows_profile(recorded) ? recorded : options_.profile;
}

const Engines::Place* Engines::loaded_from(const std::filesystem::path& path,
                                           const std::string& profile) const {
  std::error_code ignored;
  for (const Place& place : places_) {
    if (place.engine != nullptr && place.profile == profile &&
        std::filesystem::equivalent(place.model.path, path, ignored))
      return &place;
  }
  return nullptr;
}

void Engines::hash(Place& place) {
  if (std::exchange(place.known, true)) return;
  const auto print = local_engine::fingerprint(place.model.path);
  if (print) {
    place.weights_sha256 = print->weights_sha256.hex();
    place.parts = replay::parts_of(*print);
  } else {
    place.problem = print.error().message();
    place.absent = print.error().code == Errc::not_found;
  }
}

Result<void> Engines::load(Place& place) {
  if (place.broken) return *place.broken;
  if (const Place* twin = loaded_from(place.model.path, place.profile); twin != nullptr) {
    const ModelPlace model = std::move(place.model);
    place = *twin;
    place.model = model;
    return {};
  }
  auto options = options_;
  options.profile = place.profile;
  auto engine = loader_(place.model.path, options);
  if (!engine) {
    place.broken = engine.error();
    return engine.error();
  }
  const std::string weights = (*engine)->fingerprint().weights_sha256.hex();
  if (place.known && place.weights_sha256 != weights) {
    return Error{Errc::storage_failed, "the model changed while it was looked at",
                 place.model.path.string(), "run again"};
  }
  place.known = true;
  place.weights_sha256 = weights;
  place.parts = replay::parts_of((*engine)->fingerprint());
  place.engine = std::move(*engine);
  return {};
}

Result<std::shared_ptr<Engine>> Engines::engine_of(Place& place) {
  if (place.engine == nullptr) {
    if (const auto loaded = load(place); !loaded) return loaded.error();
  }
  if (place.checked) return place.engine;
  if (place.engine->kv_positions_max() == 0) {
    return Error{Errc::unavailable, "one block of keys and values takes more than is allowed",
                 place.model.name, "allow more (--kv-bytes-max)"};
  }
  const auto difference = check_engine(*place.engine);
  if (!difference) return difference.error();
  if (!difference->empty()) {
    failed_ = true;
    return Error{Errc::unavailable, *difference + ": no verdict of it would mean anything",
                 "the self-check of " + place.model.name,
                 "run `verbatim engine selfcheck`, and check the machine"};
  }
  place.checked = true;
  ++checked_;
  return place.engine;
}

}  // namespace verbatim::replay
