#pragma once
// A tokenizer from Hugging Face's tokenizer.json.

#include "local_engine/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <string_view>

namespace verbatim::local_engine {

/// The names of the special tokens, from the files beside tokenizer.json.
struct SpecialNames {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

/// Reads bos_token and eos_token of tokenizer_config.json, else of special_tokens_map.json. A file that is missing
/// says nothing; one that is malformed is `invalid_input`.
[[nodiscard]] Result<SpecialNames> read_special_names(const std::filesystem::path& folder);

/// `json`: the file's bytes. Models BPE and Unigram; everything else that is not supported is refused by name.
/// "truncation" and "padding" are not applied: they are settings of a batch, not of the model.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(
    std::string_view json, const SpecialNames& names, std::string_view where);

}  // namespace verbatim::local_engine
