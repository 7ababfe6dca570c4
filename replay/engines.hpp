#pragma once
// The engines that a replay may use, found by the digest of their weights and loaded when first needed.

#include "local_engine/engine.hpp"
#include "replay/recorded_models.hpp"

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Where a model might be. Names are for people: what counts is weights_sha256.
struct ModelPlace {
  std::string name;
  std::filesystem::path path;
  /// The operator says that whoever answers under this name serves these weights: then answers of remote endpoints
  /// are measured by them.
  bool vouched = false;
};

/// Makes an engine; Engine::load but for tests that hand in a wrong one.
using EngineLoader = std::function<Result<std::shared_ptr<local_engine::Engine>>(
    const std::filesystem::path&, const local_engine::EngineOptions&)>;

/// A record is computed again under the numerics profile that it names: of one model there may be an engine for each. What
/// names none, or one that this build does not know, gets the engine of EngineOptions::profile.
///
/// Any thread may call; while an engine is loaded or checked the others wait. Every engine is checked (check_engine) before
/// it is given out. One that fails is never given out, and failed() is true from then on.
///
/// Errors: `not_found`: no place has the weights. `invalid_input`: nor has any, and one of that name cannot be read.
/// `unavailable`: the engine failed its check, or EngineOptions::kv_bytes_max has no room for it. Others are those of the
/// engine that has the weights and does not load.
class Engines {
 public:
  Engines(std::vector<ModelPlace> places, local_engine::EngineOptions options,
          EngineLoader loader = &local_engine::Engine::load);

  /// The engine with these weights under `profile`, which answered under `name`. Places of that name are loaded at once,
  /// since a loaded engine knows its digest; others are hashed first, and loaded only if they have the weights.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> with_weights(
      const std::string& weights_sha256, const std::string& name, const std::string& profile);

  /// Does the operator vouch for weights under this name?
  [[nodiscard]] bool vouches_for(const std::string& name) const;
  /// Their engine.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> vouched(const std::string& name);

  /// The engine that judges an answer given under `name`: that with the recorded weights, or, where none are recorded (""),
  /// since another engine answered, the one that is vouched for.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> judging(
      const std::string& weights_sha256, const std::string& name, const std::string& profile);

  /// The engine of the first place with this name, whatever weights it has.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> named(const std::string& name,
                                                                    const std::string& profile);

  /// An engine to compare with: of the model at `path`, or if that is empty, of the place that has these weights; on
  /// `backend`, or if that is empty, on that of the others; under `profile`. It judges nobody, so it is not checked. The
  /// last one is kept.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> counterpart(
      const std::filesystem::path& path, const std::string& backend,
      const std::string& weights_sha256, const std::string& profile);

  /// An engine failed its check: the run must give no verdicts.
  [[nodiscard]] bool failed() const;
  /// How many engines passed it.
  [[nodiscard]] std::size_t checked() const;

  /// The parts of the model of this name, as they are now. Nothing if there is none, or it cannot be read.
  [[nodiscard]] std::optional<ModelParts> parts_of(const std::string& name);

  /// True if somebody named weights for this name (--engine), and these are not among them.
  [[nodiscard]] bool vouched_otherwise(const std::string& name, const std::string& weights_sha256);

  /// True if a place has this name but other weights: the model was changed since.
  [[nodiscard]] bool name_has_other_weights(const std::string& name,
                                            const std::string& weights_sha256);

 private:
  struct Place {
    ModelPlace model;
    std::string profile;         ///< of `engine`
    bool known = false;          ///< weights_sha256 or problem says what is there
    std::string weights_sha256;  ///< "" when it could not be read
    ModelParts parts;            ///< likewise
    std::string problem;
    bool absent = false;                           ///< nothing is at its path
    std::shared_ptr<local_engine::Engine> engine;  ///< loaded
    std::optional<Error> broken;                   ///< why it does not load: tried once
    bool checked = false;
  };
  [[nodiscard]] Place* place_with(const std::string& weights_sha256);
  /// The same place for another profile: added when it is first asked for, behind those that were given.
  [[nodiscard]] Place& under(Place& place, const std::string& profile);
  [[nodiscard]] const std::string& known_profile(const std::string& recorded) const;
  /// Two names of one model share its engine.
  [[nodiscard]] const Place* loaded_from(const std::filesystem::path& path,
                                         const std::string& profile) const;
  void hash(Place& place);
  [[nodiscard]] Result<void> load(Place& place);
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> engine_of(Place& place);

  mutable std::mutex mutex_;  // guards the members below
  std::deque<Place> places_;  // references stay valid when one is added
  local_engine::EngineOptions options_;
  EngineLoader loader_;
  bool failed_ = false;
  std::size_t checked_ = 0;
  std::filesystem::path counterpart_path_;
  std::string counterpart_profile_;
  std::shared_ptr<local_engine::Engine> counterpart_;
};

}  // namespace verbatim::replay
