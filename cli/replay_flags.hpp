#pragma once
// What `replay` and `replay calibrate` are told alike: which records, and which models.

#include "cli/command.hpp"
#include "replay/engines.hpp"
#include "replay/selection.hpp"

#include <string>
#include <vector>

namespace verbatim::cli {

struct RecordFlags {
  replay::Selection selection;
  bool all = false;
  std::string checkpoint_file;

  void add(CLI::App& command);
  /// Reads --checkpoint into the selection. `invalid_input` if nothing is selected.
  [[nodiscard]] Result<void> finish();
};

/// NAME=PATH each; a path must exist. The operator vouches for what he names.
[[nodiscard]] Result<std::vector<replay::ModelPlace>> named_places(
    const std::vector<std::string>& assignments, const char* flag);

/// The engine that `flags` ask for, if this machine has it: a mistake here is no verdict on anybody's record.
[[nodiscard]] Result<local_engine::EngineOptions> engine_options(const EngineFlags& flags);

/// Under `replay`.
void add_calibrate(CLI::App& replay, Context& context);

}  // namespace verbatim::cli
