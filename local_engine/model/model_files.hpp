#pragma once
// A model as it lies on disk: its tensors and the small files beside them, opened once and read by
// everyone.

#include "local_engine/files/tensor.hpp"
#include "local_engine/text/gguf_metadata.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace verbatim::local_engine {

struct ModelFiles {
  std::filesystem::path path;
  TensorSet tensors;
  std::optional<GgufMetadata> gguf;  ///< set for a .gguf
  std::string config_text;           ///< config.json, "" for a .gguf
  Json config;                       ///< the same, parsed
  Json generation_config;            ///< generation_config.json, null when absent
  std::string chat_template;         ///< "" when there is none
  bool has_tokenizer = false;        ///< tokenizer.json, or a vocabulary in the .gguf
};

/// Opens a Hugging Face folder or a .gguf file. Says nothing yet of whether the architecture can be
/// computed. `not_found`, `invalid_input` (malformed: the message names the file), `unsupported`,
/// `storage_failed`.
[[nodiscard]] Result<ModelFiles> open_model(const std::filesystem::path& path);

/// The chat template of a folder: chat_template.jinja, else `chat_template` of
/// tokenizer_config.json (of several the one named "default"); "" when there is none.
[[nodiscard]] Result<std::string> read_chat_template(const std::filesystem::path& folder);

}  // namespace verbatim::local_engine
