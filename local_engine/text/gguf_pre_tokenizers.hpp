#pragma once
// What the names in tokenizer.ggml.pre stand for.

#include <optional>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

struct GgufPreTokenizer {
  std::vector<std::string_view> patterns;  ///< applied in turn, each match and each gap a piece
  bool ignore_merges = false;              ///< a piece that is a token is not merged
  bool add_bos = false;                    ///< unless the file says otherwise
  bool nfc = false;                        ///< the model's own tokenizer normalizes its text
};

/// Nothing if the name is not known. A name is what llama.cpp's converter writes; the patterns are those of the
/// models' own tokenizers, also where llama.cpp approximates them.
[[nodiscard]] std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

}  // namespace verbatim::local_engine
