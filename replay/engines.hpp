#pragma once
// The engines that a replay may use, found by the digest of their weights and loaded when first needed.

#include "local_engine/engine.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
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

/// One thread at a time. Every engine is checked (check_engine) before it is given out; one that fails is never given
/// out: `out_of_range`, and failed() is true from then on.
class Engines {
 public:
  Engines(std::vector<ModelPlace> places, local_engine::EngineOptions options,
          EngineLoader loader = &local_engine::Engine::load);

  /// The engine with these weights. `not_found`: no place has them; the text names the places and what they
  /// hold. Other errors are of the place that has them but does not load.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> with_weights(
      const std::string& weights_sha256);

  /// The engine that the operator vouches for under this name. `not_found` if there is none.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> vouched(const std::string& name);

  /// An engine failed its check: the run must give no verdicts.
  [[nodiscard]] bool failed() const { return failed_; }
  /// How many engines passed it.
  [[nodiscard]] std::size_t checked() const { return checked_; }

  /// True if a place has this name but other weights: the model was changed since.
  [[nodiscard]] bool name_has_other_weights(const std::string& name,
                                            const std::string& weights_sha256);

 private:
  struct Place {
    ModelPlace model;
    bool hashed = false;
    std::string weights_sha256;  ///< "" when it could not be read
    std::string problem;
    std::shared_ptr<local_engine::Engine> engine;
  };
  void hash_all();
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> engine_of(Place& place);

  std::vector<Place> places_;
  local_engine::EngineOptions options_;
  EngineLoader loader_;
  bool failed_ = false;
  std::size_t checked_ = 0;
};

}  // namespace verbatim::replay
