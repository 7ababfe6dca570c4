#pragma once
// Files of layer digests: what `verbatim engine generate|score --layer-digests` writes and
// `verbatim engine compare` reads (schema/layer-digests.md).

#include "cli/command.hpp"
#include "local_engine/engine.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <string>
#include <vector>

namespace verbatim::cli {

struct LayerFile {
  std::string profile, backend, build, weights_sha256;
  std::vector<local_engine::TokenId> prompt_ids, output_ids;
  local_engine::LayerDigests digests{local_engine::LayerDetail::residual};
};

/// Writes what `result` has of the layers. Errors as write_output().
[[nodiscard]] Result<void> write_layer_file(const std::string& path,
                                            const local_engine::Engine& engine,
                                            const local_engine::GenerationRequest& request,
                                            const local_engine::GenerationResult& result);

/// `invalid_input` names the file and what is wrong in it.
[[nodiscard]] Result<LayerFile> read_layer_file(const std::string& path);

/// --layer-digests and --layer-detail.
struct LayerFlags {
  std::string file, detail = "residual";
  void add(CLI::App& command);
  [[nodiscard]] local_engine::LayerDetail wanted() const;
};

/// `verbatim engine compare`.
void add_engine_compare(CLI::App& engine, Context& context);

}  // namespace verbatim::cli
