#pragma once
// Where the gateway found the models that it served from a data folder: a hint for replays, no evidence.

#include "replay/engines.hpp"

#include <filesystem>
#include <vector>

namespace verbatim::cli {

/// Writes `models.json` into the data folder: names and absolute paths. A failure is not an error: without the
/// hint a replay asks for --engine.
void write_model_places(const std::filesystem::path& data,
                        const std::vector<replay::ModelPlace>& places);

/// Reads it; nothing when there is none or it is not what write_model_places() wrote.
[[nodiscard]] std::vector<replay::ModelPlace> read_model_places(const std::filesystem::path& data);

}  // namespace verbatim::cli
