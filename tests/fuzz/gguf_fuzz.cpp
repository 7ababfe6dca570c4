// GGUF metadata, and the tokenizers and configurations that are made of it.

#include "local_engine/model/config.hpp"
#include "local_engine/text/gguf_metadata.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/tokenizer_checks.hpp"
#include "tests/local_engine/model_bytes.hpp"
#include "tests/local_text/small_tokenizers.hpp"

namespace verbatim::fuzz {

namespace {

using namespace local_engine;

void run(std::string_view input) {
  const auto metadata = GgufMetadata::parse(as_bytes(input), "fuzzed.gguf");
  if (!metadata) {
    VERBATIM_CHECK(!metadata.error().what.empty());
    return;
  }
  VERBATIM_CHECK(metadata->end() <= input.size());
  VERBATIM_CHECK(metadata->version() == 2 || metadata->version() == 3);
  const auto again = GgufMetadata::parse(as_bytes(input.substr(0, metadata->end())), "cut.gguf");
  if (metadata->tensor_count() == 0) VERBATIM_CHECK(again.has_value());
  (void)metadata->digest("tokenizer.");
  for (const auto& [key, value] : metadata->values()) {
    (void)metadata->integer(key);
    (void)metadata->number(key);
    (void)metadata->text(key);
    (void)metadata->array(key);
  }
  if (const auto tokenizer = make_tokenizer_gguf(*metadata, "fuzzed.gguf")) {
    check_tokenizer(**tokenizer, "Hello \xE2\x96\x81world \xFF<s>");
  }
}

std::vector<std::string> seeds() {
  test::GgufWriter spm =
      test::spm_gguf({"\xE2\x96\x81", "h", "e", "he", "\xE2\x96\x81he"}, {-1, -2, -3, -4, -5});
  spm.boolean("tokenizer.ggml.add_bos_token", true);
  test::GgufWriter bpe;
  bpe.text("general.architecture", "llama");
  bpe.text("tokenizer.ggml.model", "gpt2");
  bpe.text("tokenizer.ggml.pre", "llama-bpe");
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_character(static_cast<unsigned char>(byte)));
    tokens.push_back(text);
  }
  tokens.insert(tokens.end(), {"he", "ll", "<|end|>"});
  bpe.texts("tokenizer.ggml.tokens", tokens);
  bpe.texts("tokenizer.ggml.merges", {"h e", "l l"});
  std::vector<std::int32_t> types(tokens.size(), 1);
  types.back() = 3;
  bpe.integers("tokenizer.ggml.token_type", types);
  bpe.u32("tokenizer.ggml.eos_token_id", 258);
  test::GgufWriter nested;
  nested.array("a", GgufType::array, 1);
  nested.number(static_cast<std::uint64_t>(GgufType::u8), 4);
  nested.number(2, 8);
  nested.number(0x0201, 2);
  test::TinyModel model;
  model.layers = 1;
  model.vocab = 5;
  return {spm.file(), bpe.file(), nested.file(2), test::gguf_bytes(model).substr(0, 1200)};
}

const Registration kGguf({"gguf",
                          run,
                          seeds,
                          {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
                           "gpt2", "llama", std::string("\x09\x00\x00\x00", 4),
                           std::string("\x08\x00\x00\x00", 4),
                           std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8), "<0x0A>", "qwen2"}});

}  // namespace

}  // namespace verbatim::fuzz
