#pragma once
// Files of activation fingerprints: what `verbatim engine generate|score --fingerprint` writes and
// `verbatim engine score --check-fingerprint` reads (schema/activation-fingerprint.md).

#include "cli/command.hpp"
#include "local_engine/engine.hpp"
#include "replay/verdict.hpp"

#include <optional>
#include <string>

namespace verbatim::cli {

struct FingerprintFlags {
  std::string file, file_to_check;

  void add(CLI::App& command);        ///< --fingerprint
  void add_check(CLI::App& command);  ///< --check-fingerprint
  [[nodiscard]] bool wanted() const { return !file.empty() || !file_to_check.empty(); }

  /// Writes the file, if one is asked for. Errors as write_output().
  [[nodiscard]] Result<void> write(const local_engine::GenerationResult& result) const;
  /// Compares with the file, if one is given. `invalid_input`: it is not of an output of as many tokens.
  [[nodiscard]] Result<std::optional<local_engine::FingerprintAgreement>> check(
      const local_engine::Engine& engine, const local_engine::GenerationResult& result) const;
};

}  // namespace verbatim::cli
