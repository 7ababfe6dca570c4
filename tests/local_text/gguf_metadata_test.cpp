#include "local_engine/text/gguf_metadata.hpp"

#include "tests/local_text/gguf_writer.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <random>

namespace verbatim::local_engine {
namespace {

using test::GgufWriter;

Result<GgufMetadata> parse(const std::string& file) {
  return GgufMetadata::parse(as_bytes(file), "test.gguf");
}

std::string fault(const std::string& file) {
  const auto parsed = parse(file);
  return parsed ? "no error" : parsed.error().what;
}

GgufWriter sample() {
  GgufWriter out;
  out.text("general.architecture", "llama");
  out.u32("llama.block_count", 5);
  out.boolean("tokenizer.ggml.add_bos_token", true);
  out.texts("tokenizer.ggml.tokens", {"a", "", "\xe2\x96\x81"});
  out.floats("tokenizer.ggml.scores", {0.5F, -1.0F, 2.0F});
  out.integers("tokenizer.ggml.token_type", {1, -2, 3});
  out.array("nested", GgufType::array, 1);
  out.number(static_cast<std::uint64_t>(GgufType::u16), 4);
  out.number(2, 8);
  out.number(7, 2);
  out.number(65535, 2);
  out.key("small", GgufType::i8);
  out.number(0xff, 1);
  out.key("real", GgufType::f64);
  out.number(std::bit_cast<std::uint64_t>(0.1), 8);
  return out;
}

TEST(GgufMetadata, ReadsEveryKindOfValue) {
  const std::string file = sample().file();
  const auto meta = parse(file);
  ASSERT_TRUE(meta) << meta.error().message();
  EXPECT_EQ(meta->end(), file.size());
  EXPECT_EQ(meta->text("general.architecture").value(), "llama");
  EXPECT_EQ(meta->integer("llama.block_count").value(), 5U);
  EXPECT_TRUE(meta->boolean("tokenizer.ggml.add_bos_token").value());
  EXPECT_EQ(meta->number("real").value(), 0.1);
  EXPECT_EQ(meta->number("small").value(), -1.0);
  const auto* tokens = meta->array("tokenizer.ggml.tokens").value();
  EXPECT_EQ(std::get<std::vector<std::string>>(tokens->items),
            (std::vector<std::string>{"a", "", "\xe2\x96\x81"}));
  const auto* types = meta->array("tokenizer.ggml.token_type").value();
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(types->items),
            (std::vector<std::int64_t>{1, -2, 3}));
  const auto* scores = meta->array("tokenizer.ggml.scores").value();
  EXPECT_EQ(std::get<std::vector<double>>(scores->items), (std::vector<double>{0.5, -1.0, 2.0}));
  const auto* nested = meta->array("nested").value();
  const auto& inner = std::get<std::vector<GgufArray>>(nested->items).at(0);
  EXPECT_EQ(std::get<std::vector<std::uint64_t>>(inner.items),
            (std::vector<std::uint64_t>{7, 65535}));
}

TEST(GgufMetadata, AWrongTypeIsAnErrorAndNeverTheFallback) {
  const auto meta = parse(sample().file()).value();
  EXPECT_EQ(meta.integer("missing", 9).value(), 9U);
  EXPECT_EQ(meta.integer("missing").error().what, "GGUF metadata key 'missing' is missing");
  EXPECT_EQ(meta.integer("general.architecture", 9).error().what,
            "GGUF metadata key 'general.architecture' is not a non-negative integer");
  EXPECT_FALSE(meta.integer("small"));
  EXPECT_FALSE(meta.text("llama.block_count", ""));
  EXPECT_FALSE(meta.boolean("llama.block_count", true));
  EXPECT_FALSE(meta.array("llama.block_count"));
}

TEST(GgufMetadata, RefusesEveryCutOfAFile) {
  const std::string file = sample().file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse(file.substr(0, size))) << size;
  }
}

TEST(GgufMetadata, RefusesForeignVersionsByName) {
  EXPECT_EQ(fault(sample().file(1)), "GGUF version 1 is not supported");
  EXPECT_EQ(fault(sample().file(4)), "GGUF version 4 is not known");
  EXPECT_EQ(fault(sample().file(0x03000000)), "big-endian GGUF is not supported");
  EXPECT_EQ(fault("ggjt" + std::string(100, '\0')), "not a GGUF file");
}

TEST(GgufMetadata, RefusesCountsBeyondTheFileWithoutAllocating) {
  std::string file = GgufWriter().file();
  file[16 + 7] = '\x7f';  // 2^63 key-value pairs
  EXPECT_EQ(fault(file), "GGUF metadata count 9151314442816847872 is more than the file can hold");
  for (const GgufType type : {GgufType::u8, GgufType::string, GgufType::array, GgufType::f64}) {
    GgufWriter out;
    out.array("big", type, std::uint64_t{1} << 61);
    EXPECT_EQ(fault(out.file()), "GGUF metadata value of 'big' is malformed");
  }
}

TEST(GgufMetadata, RefusesDuplicateAndUnprintableKeysAndDeepNesting) {
  GgufWriter twice;
  twice.u32("a", 1);
  twice.u32("a", 2);
  EXPECT_EQ(fault(twice.file()), "GGUF metadata key 'a' occurs twice");
  GgufWriter odd;
  odd.u32("a\n", 1);
  EXPECT_EQ(fault(odd.file()), "GGUF metadata key 0 is malformed");
  GgufWriter deep;
  deep.array("deep", GgufType::array, 1);
  for (int i = 0; i < 8; ++i) {
    deep.number(static_cast<std::uint64_t>(GgufType::array), 4);
    deep.number(1, 8);
  }
  EXPECT_EQ(fault(deep.file()), "GGUF metadata value of 'deep' is malformed");
}

TEST(GgufMetadata, TheDigestCoversItsPrefixOnly) {
  GgufWriter one;
  one.u32("other", 1);
  one.text("tokenizer.x", "y");
  GgufWriter two;
  two.text("tokenizer.x", "y");
  two.u32("other", 2);
  GgufWriter three;
  three.text("tokenizer.x", "z");
  const auto digest = [](const GgufWriter& out) {
    return parse(out.file()).value().digest("tokenizer.").hex();
  };
  EXPECT_EQ(digest(one), digest(two));
  EXPECT_NE(digest(one), digest(three));
}

TEST(GgufMetadata, SurvivesMutatedFiles) {
  const std::string file = sample().file();
  std::mt19937 random(20260101);
  for (int round = 0; round < 20000; ++round) {
    std::string copy = file;
    for (std::size_t n = random() % 4 + 1; n > 0; --n) {
      copy[random() % copy.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) copy.resize(random() % copy.size());
    const auto parsed = parse(copy);
    if (parsed) {
      EXPECT_LE(parsed->end(), copy.size());
    }
  }
}

TEST(GgufMetadata, ReadsARealFileAndSaysWhereTensorsBegin) {
  VERBATIM_NEED_SHARED(path, "data/models/stories260K/stories260K.gguf");
  const auto meta = read_gguf_metadata(path).value();
  EXPECT_EQ(meta.version(), 3U);
  EXPECT_EQ(meta.tensor_count(), 48U);
  EXPECT_EQ(meta.values().size(), 19U);
  EXPECT_EQ(meta.array("tokenizer.ggml.tokens").value()->size(), 512U);
}

TEST(GgufMetadata, AMissingFileIsNotFound) {
  EXPECT_EQ(read_gguf_metadata("/nonexistent/x.gguf").error().code, Errc::not_found);
}

}  // namespace
}  // namespace verbatim::local_engine
