#pragma once
// Small tokenizers whose results can be worked out by hand.

#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/tokenizer_gguf.hpp"
#include "local_engine/text/tokenizer_json.hpp"
#include "local_engine/text/utf8.hpp"
#include "schema/canonical_json.hpp"
#include "tests/local_text/gguf_writer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

/// A BPE tokenizer.json: the vocabulary in order of ids, and the merges.
inline Json bpe_json(const std::vector<std::string>& tokens,
                     const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  Json pairs = Json::array();
  for (const auto& [left, right] : merges) pairs.push_back({left, right});
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}}};
}

/// A byte-level tokenizer.json: ids 0 to 255 are the bytes, then "he", "ll", "hell", "hello", and " hello" (with the
/// space's character), then the special token <|end|> and the plain added token <tool>.
inline Json byte_level_json() {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    local_engine::append_utf8(text, local_engine::byte_character(static_cast<unsigned char>(byte)));
    tokens.push_back(text);
  }
  for (const char* text : {"he", "ll", "hell", "hello", "\xc4\xa0hello"}) tokens.emplace_back(text);
  Json json = bpe_json(
      tokens, {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"\xc4\xa0", "hello"}});
  json["added_tokens"] = {
      {{"id", 261}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}},
      {{"id", 262}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}};
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  json["decoder"] = {{"type", "ByteLevel"}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<|end|>"}}}}}},
      {"special_tokens", {{"<|end|>", {{"id", "<|end|>"}, {"ids", {261}}}}}}};
  return json;
}

/// SentencePiece-like pieces with byte fallback: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then the texts.
inline std::vector<std::string> spm_tokens(const std::vector<std::string>& texts) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    tokens.push_back(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
  }
  tokens.insert(tokens.end(), texts.begin(), texts.end());
  return tokens;
}

inline std::shared_ptr<const local_engine::Tokenizer> load(const Json& json) {
  return local_engine::parse_tokenizer_json(json.dump(), {}, "test").value();
}

/// Why it is not loaded.
inline std::string fault(const Json& json) {
  const auto loaded = local_engine::parse_tokenizer_json(json.dump(), {}, "test");
  return loaded ? "no error" : loaded.error().what;
}

/// A GGUF vocabulary of the "llama" kind over spm_tokens(texts), with scores for the texts.
inline GgufWriter spm_gguf(const std::vector<std::string>& texts,
                           const std::vector<float>& scores) {
  const std::vector<std::string> tokens = spm_tokens(texts);
  std::vector<float> all(tokens.size() - texts.size(), 0.0F);
  all.insert(all.end(), scores.begin(), scores.end());
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[0] = 2;
  types[1] = types[2] = 3;
  for (std::size_t i = 3; i < 259; ++i) types[i] = 6;
  GgufWriter out;
  out.text("tokenizer.ggml.model", "llama");
  out.texts("tokenizer.ggml.tokens", tokens);
  out.floats("tokenizer.ggml.scores", all);
  out.integers("tokenizer.ggml.token_type", types);
  out.u32("tokenizer.ggml.bos_token_id", 1);
  out.u32("tokenizer.ggml.eos_token_id", 2);
  return out;
}

inline Result<std::shared_ptr<const local_engine::Tokenizer>> load(const GgufWriter& writer) {
  const std::string file = writer.file();
  const auto metadata = local_engine::GgufMetadata::parse(as_bytes(file), "test.gguf");
  if (!metadata) return metadata.error();
  return local_engine::make_tokenizer_gguf(*metadata, "test.gguf");
}

}  // namespace verbatim::test
