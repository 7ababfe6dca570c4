#pragma once
// Where two computations of one answer part: what --explain finds, and how it is told (docs/replay.md).

#include "local_engine/layer_digests.hpp"
#include "schema/canonical_json.hpp"

#include <optional>
#include <string>

namespace verbatim::replay {

struct Explanation {
  /// With what the engine was compared: `record` (the digests that the record keeps), or another engine:
  /// its backend and the first digits of its weights' digest.
  std::string against;
  std::string problem;  ///< why nothing can be said; "" when something can
  /// Tokens and logits of the record are the engine's: layers that differ were damaged or edited since.
  bool answer_agrees = false;
  std::size_t choice = 0, prompt_tokens = 0;
  std::optional<local_engine::LayerComparison> found;
};

/// As it is kept in a `replay_verdict` leaf (schema/leaf.md): no floats.
[[nodiscard]] Json explanation_json(const Explanation& explanation);

/// A sentence for people, of what explanation_json() gave. Takes any JSON: it may come from a leaf.
[[nodiscard]] std::string explanation_text(const Json& explanation);

}  // namespace verbatim::replay
