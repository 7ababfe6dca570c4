#include "local_engine/text/gguf_vocabulary.hpp"

#include "local_engine/text/fault.hpp"
#include "local_engine/text/tokenizer_json_reader.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace verbatim::local_engine {

namespace {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw Fault{result.error().code, result.error().what};
  return *std::move(result);
}

template <class T>
const std::vector<T>* items(const GgufMetadata& metadata, std::string_view key) {
  const GgufArray* array = value_or_throw(metadata.array(key));
  if (array == nullptr) return nullptr;
  const auto* list = std::get_if<std::vector<T>>(&array->items);
  if (list == nullptr)
    malformed("GGUF metadata key '" + std::string(key) + "' has elements of the wrong type");
  return list;
}

std::optional<TokenId> read_id(const GgufMetadata& metadata, std::string_view key,
                               std::size_t tokens) {
  if (!metadata.has(key)) return std::nullopt;
  const std::uint64_t id = value_or_throw(metadata.integer(key));
  if (id == 0xffffffffU) return std::nullopt;  // converters write -1 for "none"
  if (id >= tokens) malformed("GGUF metadata key '" + std::string(key) + "' is no token's id");
  return static_cast<TokenId>(id);
}

/// Two families take white space along with their special tokens, and no metadata says so.
void set_strip_rules(const GgufMetadata& metadata, GgufVocabulary& out) {
  std::string name = value_or_throw(metadata.text("general.name", ""));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto set = [&](std::string_view text, bool GgufToken::*rule, bool value) {
    if (const auto id = out.texts.find(text))
      out.tokens[static_cast<std::size_t>(*id)].*rule = value;
  };
  if (name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos) {
    for (GgufToken& token : out.tokens) {
      token.rstrip = token.type == GgufTokenType::control || token.type == GgufTokenType::unknown ||
                     token.type == GgufTokenType::user_defined;
    }
    set("</s>", &GgufToken::rstrip, true);
    for (const char* text : {"<unk>", "<s>", "<|endoftext|>"}) set(text, &GgufToken::rstrip, false);
  }
  const std::string pre = value_or_throw(metadata.text("tokenizer.ggml.pre", ""));
  if (pre.starts_with("jina-v2-")) set("<mask>", &GgufToken::lstrip, true);
}

}  // namespace

void read_gguf_vocabulary(const GgufMetadata& metadata, GgufVocabulary& out) {
  const auto* texts = items<std::string>(metadata, "tokenizer.ggml.tokens");
  if (texts == nullptr) malformed("GGUF metadata key 'tokenizer.ggml.tokens' is missing");
  if (texts->size() > static_cast<std::size_t>(kTokenIdsMax))
    malformed("the vocabulary is too large");
  const auto* scores = items<double>(metadata, "tokenizer.ggml.scores");
  const auto* types = items<std::int64_t>(metadata, "tokenizer.ggml.token_type");
  if ((scores != nullptr && scores->size() != texts->size()) ||
      (types != nullptr && types->size() != texts->size())) {
    malformed("the arrays of the GGUF vocabulary differ in size");
  }
  out.tokens.resize(texts->size());
  out.texts.reserve(texts->size());
  // From the back: where a text occurs twice, the last id is its id.
  for (std::size_t i = texts->size(); i-- > 0;) {
    out.texts.add((*texts)[i], static_cast<TokenId>(i));
    GgufToken& token = out.tokens[i];
    if (scores != nullptr) token.score = static_cast<float>((*scores)[i]);
    if (token.score != token.score) malformed("a score of the GGUF vocabulary is not a number");
    const std::int64_t type = types == nullptr ? 1 : (*types)[i];
    if (type < 1 || type > 6) malformed("token type " + std::to_string(type) + " does not exist");
    token.type = static_cast<GgufTokenType>(type);
  }
  out.bos = read_id(metadata, "tokenizer.ggml.bos_token_id", texts->size());
  out.eos = read_id(metadata, "tokenizer.ggml.eos_token_id", texts->size());
  out.add_bos = value_or_throw(metadata.boolean("tokenizer.ggml.add_bos_token", out.add_bos));
  out.add_eos = value_or_throw(metadata.boolean("tokenizer.ggml.add_eos_token", false));
  set_strip_rules(metadata, out);
}

}  // namespace verbatim::local_engine
