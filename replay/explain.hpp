#pragma once
// Takes a divergence back to the first layer and operator that gave another result.

#include "replay/explanation.hpp"
#include "replay/recorded.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

/// What the operator names to compare with, beside what a record keeps.
struct Counterpart {
  std::filesystem::path path;  ///< of a model; "": the one that the record's engine has
  std::string backend;         ///< "": as the other engines
};

/// Reads `response.layers` (schema/layer-digests.md): of each choice its digests, or nothing where they were too
/// many. `invalid_input` says what is wrong; as many as choices.
[[nodiscard]] Result<std::vector<std::optional<local_engine::LayerDigests>>> parse_layers(
    std::string_view content, std::size_t choices);

/// Scores the recorded tokens, and compares what the layers compute with what the record keeps of that. The first choice
/// that differs speaks for the record.
[[nodiscard]] Explanation explain_by_record(
    local_engine::Engine& engine, const std::vector<RecordedChoice>& choices,
    const std::vector<std::optional<local_engine::LayerDigests>>& recorded);

/// Scores the recorded tokens by both, and compares every operator.
[[nodiscard]] Explanation explain_by_engine(local_engine::Engine& engine,
                                            local_engine::Engine& other,
                                            const std::vector<RecordedChoice>& choices);

}  // namespace verbatim::replay
