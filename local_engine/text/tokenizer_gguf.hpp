#pragma once
// A tokenizer from the vocabulary in a GGUF file.

#include "local_engine/text/gguf_metadata.hpp"
#include "local_engine/tokenizer.hpp"

#include <filesystem>
#include <memory>

namespace verbatim::local_engine {

/// tokenizer.ggml.model "llama" (SentencePiece BPE by scores) and "gpt2" (byte-level BPE with a named pre-tokenizer).
/// Other models, and names of pre-tokenizers that are not known, are refused by name. `invalid_input`: a
/// malformed file or vocabulary.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> load_tokenizer_gguf(
    const std::filesystem::path& path);

/// The same from metadata that has been read.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> make_tokenizer_gguf(
    const GgufMetadata& metadata, std::string_view where);

}  // namespace verbatim::local_engine
