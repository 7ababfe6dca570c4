#pragma once
// The engines that a replay may use, found by the digest of their weights and loaded when first needed.

#include "local_engine/engine.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::replay {

/// Where a model might be. Names are for people: what counts is weights_sha256.
struct ModelPlace {
  std::string name;
  std::filesystem::path path;
};

/// One thread at a time.
class Engines {
 public:
  Engines(std::vector<ModelPlace> places, local_engine::EngineOptions options);

  /// The engine with these weights. `not_found`: no place has them; the text names the places and what they
  /// hold. Other errors are of the place that has them but does not load.
  [[nodiscard]] Result<std::shared_ptr<local_engine::Engine>> with_weights(
      const std::string& weights_sha256);

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

  std::vector<Place> places_;
  local_engine::EngineOptions options_;
};

}  // namespace verbatim::replay
