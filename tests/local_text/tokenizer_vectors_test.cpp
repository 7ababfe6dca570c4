// Token ids and decoded texts of published tokenizers, against vectors made with their reference implementations.

#include "local_engine/text/gguf_metadata.hpp"
#include "local_engine/text/tokenizer_gguf.hpp"
#include "local_engine/text/tokenizer_json.hpp"
#include "local_engine/tokenizer.hpp"
#include "schema/canonical_json.hpp"
#include "tests/local_text/compressed.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace verbatim::local_engine {
namespace {

using Ids = std::vector<TokenId>;

struct Vector {
  std::string text;
  std::optional<Ids> ids;
  std::optional<Ids> ids_special;
  std::optional<std::string> decoded;
  std::optional<std::string> decoded_skip_special;
};

template <class T>
std::optional<T> optional_member(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

std::vector<Vector> read_vectors(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<Vector> vectors;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    vectors.push_back({json.at("text").get<std::string>(), optional_member<Ids>(json, "ids"),
                       optional_member<Ids>(json, "ids_special"),
                       optional_member<std::string>(json, "decoded"),
                       optional_member<std::string>(json, "decoded_skip_special")});
  }
  return vectors;
}

std::string print(const Ids& ids) {
  std::string out;
  for (const TokenId id : ids) out += std::to_string(id) + " ";
  return out;
}

/// Checks every vector, and that decoding token by token gives the same text.
void check(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<Vector>& vectors) {
  ASSERT_FALSE(vectors.empty());
  int shown = 0;
  for (const Vector& vector : vectors) {
    const Ids ids = tokenizer->encode(vector.text, {.add_special = false}).value();
    bool good = true;
    if (vector.ids && print(ids) != print(*vector.ids)) good = false;
    if (vector.ids_special) {
      good = good && tokenizer->encode(vector.text, {}).value() == *vector.ids_special;
    }
    if (vector.decoded) good = good && tokenizer->decode(ids, false) == *vector.decoded;
    if (vector.decoded_skip_special) {
      good = good && tokenizer->decode(ids, true) == *vector.decoded_skip_special;
    }
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string piece = stream.push(id);
      good = good && is_utf8(piece);
      streamed += piece;
    }
    streamed += stream.finish();
    good = good && streamed == tokenizer->decode(ids, false);
    if (!good && ++shown <= 10) {
      ADD_FAILURE() << "text " << Json(vector.text).dump() << "\n  ids      " << print(ids)
                    << "\n  expected " << (vector.ids ? print(*vector.ids) : "") << "\n  decoded  "
                    << tokenizer->decode(ids, false) << "\n  expected "
                    << vector.decoded.value_or("") << "\n  streamed " << streamed;
    }
  }
  EXPECT_EQ(shown, 0) << "of " << vectors.size();
}

std::string test_name(const testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
}

class HuggingFaceVectors : public testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceVectors, IdsAndTextsAreThoseOfTheReference) {
  VERBATIM_NEED_SHARED(folder, "data/tokenizers");
  const auto path = folder / "hf" / GetParam() / "tokenizer.json.xz";
  const auto tokenizer = parse_tokenizer_json(test::read_compressed(path), {}, path.string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  check(*tokenizer, read_vectors(folder / "vectors" / (GetParam() + ".jsonl")));
}

INSTANTIATE_TEST_SUITE_P(All, HuggingFaceVectors,
                         testing::Values("qwen3", "llama3.1", "deepseek-v3", "gemma3",
                                         "gpt-oss-o200k", "mistral-v0.1"),
                         test_name);

class GgufVectors : public testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path) {
    const std::string file = test::read_compressed(path);
    const GgufMetadata metadata = GgufMetadata::parse(as_bytes(file), path.string()).value();
    return make_tokenizer_gguf(metadata, path.string()).value();
  }
};

TEST_P(GgufVectors, IdsAreThoseOfTheReference) {
  VERBATIM_NEED_SHARED(folder, "data/tokenizers");
  const auto tokenizer = load(folder / "gguf-vocab" / ("ggml-vocab-" + GetParam() + ".gguf.gz"));
  check(tokenizer, read_vectors(folder / "vectors" / ("gguf-" + GetParam() + ".jsonl")));
}

/// Pairs of a text and its ids, as the files beside the vocabularies have them.
std::vector<Vector> read_inp_out(const std::filesystem::path& stem) {
  const std::string texts = test::read_compressed(stem.string() + ".inp");
  std::istringstream lines(test::read_compressed(stem.string() + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<Vector> vectors;
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line) && at != std::string::npos;) {
    const std::size_t end = texts.find(separator, at);
    Vector vector;
    vector.text = texts.substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? end : end + separator.size();
    std::istringstream numbers(line);
    vector.ids.emplace();
    for (TokenId id = 0; numbers >> id;) vector.ids->push_back(id);
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

TEST_P(GgufVectors, IdsAreThoseOfTheFilesBesideIt) {
  VERBATIM_NEED_SHARED(folder, "data/tokenizers/gguf-vocab");
  const auto tokenizer = load(folder / ("ggml-vocab-" + GetParam() + ".gguf.gz"));
  check(tokenizer, read_inp_out(folder / ("ggml-vocab-" + GetParam() + ".gguf")));
}

INSTANTIATE_TEST_SUITE_P(All, GgufVectors,
                         testing::Values("gpt-2", "llama-spm", "phi-3", "starcoder", "deepseek-llm",
                                         "falcon"),
                         test_name);

TEST(TokenizerVectors, TheTestFilesOfLlamaBpeAndQwen2HoldForTheHuggingFaceTokenizers) {
  VERBATIM_NEED_SHARED(folder, "data/tokenizers");
  for (const auto& [name, stem] : {std::pair{"llama3.1", "llama-bpe"}, {"qwen3", "qwen2"}}) {
    const auto path = folder / "hf" / name / "tokenizer.json.xz";
    const auto tokenizer =
        parse_tokenizer_json(test::read_compressed(path), {}, path.string()).value();
    check(tokenizer,
          read_inp_out(folder / "gguf-vocab" / ("ggml-vocab-" + std::string(stem) + ".gguf")));
  }
}

TEST(TokenizerVectors, TheSmallModelHasTheSameIdsFromBothFileFormats) {
  VERBATIM_NEED_SHARED(folder, "data");
  const auto vectors = read_vectors(folder / "tokenizers/vectors/stories260K.jsonl");
  check(Tokenizer::load(folder / "models/stories260K-hf").value(), vectors);
  check(Tokenizer::load(folder / "models/stories260K/stories260K.gguf").value(), vectors);
}

}  // namespace
}  // namespace verbatim::local_engine
