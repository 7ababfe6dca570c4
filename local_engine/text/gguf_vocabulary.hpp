#pragma once
// The vocabulary in a GGUF file's metadata.

#include "local_engine/text/gguf_metadata.hpp"
#include "local_engine/text/vocabulary.hpp"
#include "local_engine/token.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// The numbers of tokenizer.ggml.token_type.
enum class GgufTokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct GgufToken {
  GgufTokenType type = GgufTokenType::normal;
  float score = 0;
  bool lstrip = false;  ///< as a special token it takes the white space before it along
  bool rstrip = false;  ///< ... after it
};

struct GgufVocabulary {
  Vocabulary texts;
  std::vector<GgufToken> tokens;  ///< by id
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool add_bos = false;
  bool add_eos = false;
};

/// Fills `out`. The defaults of add_bos are the caller's. Throws Fault (`invalid_input`): arrays missing, of another
/// type or of different sizes, an id out of range.
void read_gguf_vocabulary(const GgufMetadata& metadata, GgufVocabulary& out);

}  // namespace verbatim::local_engine
