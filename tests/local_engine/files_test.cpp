// Model files are hostile: every way of being malformed is refused with one message that names the
// file.

#include "local_engine/files/gguf.hpp"
#include "local_engine/files/safetensors.hpp"
#include "local_engine/model/model_files.hpp"
#include "local_engine/model/weights.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/model_bytes.hpp"

#include <functional>
#include <limits>

namespace verbatim::local_engine {
namespace {

namespace fs = std::filesystem;
using test::GgufParts;
using test::little_endian;
using test::TinyModel;
using test::write_bytes;

/// A safetensors file of this header and `data_bytes` zeros.
std::string with_header(const std::string& header, std::size_t data_bytes) {
  return little_endian(header.size(), 8) + header + std::string(data_bytes, '\0');
}

struct Case {
  std::string name;   // what is wrong
  std::string bytes;  // of the file
  Errc code;
  std::string says;  // part of the message
};

template <class Read>
void expect_refused(const Case& each, const fs::path& file, const Read& read) {
  SCOPED_TRACE(each.name);
  write_bytes(file, each.bytes);
  const auto result = read(file);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, each.code) << result.error().message();
  EXPECT_NE(result.error().what.find(each.says), std::string::npos) << result.error().message();
  EXPECT_EQ(result.error().where, file.string());
  EXPECT_EQ(result.error().message().find('\n'), std::string::npos);
}

constexpr auto kBad = Errc::invalid_input;

TEST(SafetensorsTest, EveryMalformedFileIsRefused) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const std::string two = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"F32","shape":[1],"data_offsets":)";
  const std::vector<Case> cases{
      {"empty", "", kBad, "not safetensors: 0 bytes"},
      {"half a length", "1234", kBad, "not safetensors: 4 bytes"},
      {"header over 100 MB", little_endian(100'000'001, 8) + "{}", kBad, "too long"},
      {"header of 2^64 - 1", little_endian(~0ull, 8) + "{}", kBad, "too long"},
      {"header beyond the file", little_endian(1000, 8) + "{}", kBad, "truncated"},
      {"no JSON", with_header("{", 0), kBad, "header"},
      {"an array", with_header("[]", 0), kBad, "not an object"},
      {"not UTF-8", with_header("{\"\xff\":{}}", 0), kBad, "header"},
      {"nested too deep", with_header(std::string(5000, '[') + std::string(5000, ']'), 0), kBad,
       "header"},
      {"duplicate key", with_header(R"({"a":1,"a":1})", 0), kBad, "header"},
      {"tensor that is no object", with_header(R"({"a":1})", 0), kBad, "'a': not an object"},
      {"metadata that is no object", with_header(R"({"__metadata__":1})", 0), kBad, "__metadata__"},
      {"no dtype", with_header(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), kBad, "no dtype"},
      {"unknown dtype", with_header(one("F7", "[1]", "[0,4]"), 4), Errc::unsupported, "F7"},
      {"no shape", with_header(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), kBad, "shape"},
      {"negative shape", with_header(one("F32", "[-1]", "[0,4]"), 4), kBad, "shape"},
      {"fractional shape", with_header(one("F32", "[1.0]", "[0,4]"), 4), kBad, "shape"},
      {"nine dimensions", with_header(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), kBad,
       "dimensions"},
      {"one offset", with_header(one("F32", "[1]", "[0]"), 4), kBad, "not a pair"},
      {"offsets turned", with_header(one("F32", "[1]", "[4,0]"), 4), kBad, "outside"},
      {"offsets beyond", with_header(one("F32", "[2]", "[0,8]"), 4), kBad, "outside"},
      {"offsets near 2^64",
       with_header(one("F32", "[1]", "[18446744073709551612,18446744073709551615]"), 4), kBad,
       "outside"},
      {"size is not the shape's", with_header(one("F32", "[3]", "[0,8]"), 8), kBad,
       "does not fill"},
      {"shape overflows", with_header(one("F32", "[4294967296,4294967296,2]", "[0,8]"), 8), kBad,
       "does not fill"},
      {"bytes overflow", with_header(one("F32", "[4611686018427387906]", "[0,8]"), 8), kBad,
       "does not fill"},
      {"overlap", with_header(two + "[4,8]}}", 8), kBad, "'b' overlaps"},
      {"gap", with_header(two + "[12,16]}}", 16), kBad, "'b' leaves a gap"},
      {"gap at the start", with_header(one("F32", "[1]", "[4,8]"), 8), kBad, "leaves a gap"},
      {"trailing bytes", with_header(two + "[8,12]}}", 13), kBad, "1 bytes after"},
      {"data without tensors", with_header("{}", 1), kBad, "1 bytes after"},
  };
  const auto file = test::fresh_dir() / "model.safetensors";
  for (const auto& each : cases) {
    expect_refused(each, file, [](const fs::path& path) -> Result<void> {
      TensorSet set;
      return read_safetensors(path, set);
    });
  }
}

TEST(SafetensorsTest, EveryTruncationOfAGoodFileIsRefused) {
  TinyModel small;
  small.layers = 1;
  small.hidden = 8;
  small.intermediate = 4;
  small.heads = small.kv_heads = 1;
  small.vocab = 4;
  const auto bytes = test::safetensors_bytes(test::tiny_tensors(small), "BF16");
  const auto file = test::fresh_dir() / "model.safetensors";
  write_bytes(file, bytes);
  for (std::size_t size = bytes.size(); size-- > 0;) {
    fs::resize_file(file, size);
    TensorSet set;
    ASSERT_FALSE(read_safetensors(file, set)) << size;
  }
  write_bytes(file, bytes);
  TensorSet set;
  EXPECT_TRUE(read_safetensors(file, set));
  EXPECT_EQ(set.tensors.size(), test::tiny_tensors(small).size());
}

TEST(SafetensorsTest, ATensorWithoutElementsTakesNoRoom) {
  const auto file = test::fresh_dir() / "model.safetensors";
  write_bytes(file, with_header(R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},)"
                                R"("x":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
                                8));
  TensorSet set;
  ASSERT_TRUE(read_safetensors(file, set));
  EXPECT_EQ(set.tensors.at("e").elements, 0u);
  EXPECT_FALSE(set.tensors.at("x").dtype) << "known by name only";
}

TEST(SafetensorsTest, MissingFilesAndFoldersAreToldApart) {
  const auto folder = test::fresh_dir();
  EXPECT_EQ(read_safetensors_folder(folder).error().code, Errc::not_found);
  fs::create_directory(folder / "model.safetensors");
  EXPECT_EQ(read_safetensors_folder(folder).error().code, Errc::invalid_input);
}

class ShardTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::fresh_dir();
    test::write_tiny_model(folder_, TinyModel{});
    whole_ = read_safetensors_folder(folder_).value();
    fs::remove(folder_ / "model.safetensors");
    test::write_shards(folder_, test::tiny_tensors(TinyModel{}), "F32");
  }
  void change_index(const std::function<void(Json&)>& change) {
    const auto file = folder_ / "model.safetensors.index.json";
    auto index = parse_json(read_all(file)).value();
    change(index);
    write_bytes(file, index.dump());
  }
  static std::string read_all(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void expect_refused(Errc code, const std::string& says) {
    const auto set = read_safetensors_folder(folder_);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, code) << set.error().message();
    EXPECT_NE(set.error().message().find(says), std::string::npos) << set.error().message();
  }
  fs::path folder_;
  TensorSet whole_;
};

TEST_F(ShardTest, ShardsGiveTheTensorsOfTheWholeFile) {
  const auto set = read_safetensors_folder(folder_).value();
  ASSERT_EQ(set.tensors.size(), whole_.tensors.size());
  for (const auto& [name, tensor] : set.tensors) {
    const auto& other = whole_.tensors.at(name);
    EXPECT_EQ(tensor.shape, other.shape);
    EXPECT_TRUE(
        std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end()));
  }
}

TEST_F(ShardTest, AStrayShardThatTheIndexDoesNotNameIsNotRead) {
  write_bytes(folder_ / "model-00003-of-00002.safetensors", "rubbish");
  write_bytes(folder_ / "model.safetensors", "rubbish");
  EXPECT_TRUE(read_safetensors_folder(folder_));
}

TEST_F(ShardTest, AMissingShardIsNamed) {
  fs::remove(folder_ / "model-00002-of-00002.safetensors");
  expect_refused(Errc::not_found, "model-00002-of-00002.safetensors");
}

TEST_F(ShardTest, AnIndexThatDisagreesWithItsShardsIsRefused) {
  change_index([](Json& index) {
    index["weight_map"]["lm_head.weight"] = "model-00002-of-00002.safetensors";
  });
  expect_refused(kBad, "not where the index says");
  change_index([](Json& index) { index["weight_map"].erase("lm_head.weight"); });
  expect_refused(kBad, "not where the index says");
}

TEST_F(ShardTest, ATensorOfTheIndexThatNoShardHasIsRefused) {
  change_index(
      [](Json& index) { index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"; });
  expect_refused(kBad, "'ghost' of the index is missing");
}

TEST_F(ShardTest, AShardOutsideTheFolderIsRefused) {
  for (const std::string name : {"../model.safetensors", "/etc/passwd", "..", "", "a/b"}) {
    change_index([&](Json& index) { index["weight_map"]["lm_head.weight"] = name; });
    expect_refused(kBad, "not a plain file name");
  }
}

TEST_F(ShardTest, AMalformedIndexIsRefused) {
  for (const std::string text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})",
                                 R"({"weight_map":{"a":1}})"}) {
    write_bytes(folder_ / "model.safetensors.index.json", text);
    expect_refused(kBad, "model.safetensors.index.json");
  }
}

/// `change` breaks a good file.
Case broken_gguf(const std::string& name, Errc code, const std::string& says,
                 const std::function<void(GgufParts&)>& change) {
  GgufParts parts;
  parts.add_text("general.architecture", "llama");
  parts.add_tensor("a", {4, 2}, 0, std::string(32, 'x'));
  change(parts);
  return {name, parts.bytes(), code, says};
}

TEST(GgufTest, EveryMalformedFileIsRefused) {
  using P = GgufParts;
  const auto value = [](const std::string& encoded) {
    return [encoded](P& p) { p.values.push_back(encoded); };
  };
  const auto key = test::gguf_string("k");
  const auto info = [](const std::string& encoded) {
    return [encoded](P& p) { p.infos[0] = encoded; };
  };
  const auto named = [](const std::string& rest) { return test::gguf_string("a") + rest; };
  const std::string dims1 = little_endian(1, 4);
  const std::vector<Case> cases{
      broken_gguf("magic", kBad, "not a GGUF", [](P& p) { p.magic = "GGUX"; }),
      broken_gguf("version 1", Errc::unsupported, "version 1", [](P& p) { p.version = 1; }),
      broken_gguf("version 4", Errc::newer_version, "version 4", [](P& p) { p.version = 4; }),
      broken_gguf("big-endian", Errc::unsupported, "big-endian",
                  [](P& p) { p.version = 0x03000000; }),
      broken_gguf("value count 2^63", kBad, "count", [](P& p) { p.value_count_plus = 1ull << 63; }),
      broken_gguf("tensor count 2^63", kBad, "count", [](P& p) { p.info_count_plus = 1ull << 63; }),
      broken_gguf("one tensor more than there are", kBad, "", [](P& p) { p.info_count_plus = 1; }),
      broken_gguf("key twice", kBad, "twice",
                  [](P& p) { p.add_text("general.architecture", "x"); }),
      broken_gguf("value type 13", kBad, "'k'",
                  value(key + little_endian(13, 4) + std::string(8, '\0'))),
      broken_gguf("boolean of 2", kBad, "'k'", value(key + little_endian(7, 4) + "\x02")),
      broken_gguf("string of 2^63", kBad, "'k'",
                  value(key + little_endian(8, 4) + little_endian(1ull << 63, 8))),
      broken_gguf(
          "array of 2^61 u64", kBad, "'k'",
          value(key + little_endian(9, 4) + little_endian(10, 4) + little_endian(1ull << 61, 8))),
      broken_gguf("array of unknown", kBad, "'k'",
                  value(key + little_endian(9, 4) + little_endian(99, 4) + little_endian(0, 8))),
      broken_gguf("alignment 0", kBad, "general.alignment",
                  [](P& p) { p.add_u32("general.alignment", 0); }),
      broken_gguf("alignment 12", kBad, "general.alignment",
                  [](P& p) { p.add_u32("general.alignment", 12); }),
      broken_gguf("alignment 2^31", kBad, "general.alignment",
                  [](P& p) { p.add_u32("general.alignment", 1u << 31); }),
      broken_gguf("alignment in words", kBad, "general.alignment",
                  [](P& p) { p.add_text("general.alignment", "32"); }),
      broken_gguf("split", Errc::unsupported, "split", [](P& p) { p.add_u32("split.count", 2); }),
      broken_gguf("name of 65 bytes", kBad, "malformed",
                  info(test::gguf_string(std::string(65, 'n')) + std::string(40, '\0'))),
      broken_gguf("5 dimensions", kBad, "malformed",
                  info(named(little_endian(5, 4) + std::string(60, '\0')))),
      broken_gguf(
          "unknown type", Errc::unsupported, "type number 77",
          info(named(dims1 + little_endian(8, 8) + little_endian(77, 4) + little_endian(0, 8)))),
      broken_gguf(
          "elements overflow", kBad, "impossible shape",
          info(named(little_endian(2, 4) + little_endian(1ull << 33, 8) +
                     little_endian(1ull << 33, 8) + little_endian(0, 4) + little_endian(0, 8)))),
      broken_gguf("bytes overflow", kBad, "impossible shape",
                  info(named(dims1 + little_endian(1ull << 62, 8) + little_endian(0, 4) +
                             little_endian(0, 8)))),
      broken_gguf(
          "ragged block", kBad, "impossible shape",
          info(named(dims1 + little_endian(33, 8) + little_endian(2, 4) + little_endian(0, 8)))),
      broken_gguf(
          "unaligned offset", kBad, "not a multiple",
          info(named(dims1 + little_endian(1, 8) + little_endian(0, 4) + little_endian(4, 8)))),
      broken_gguf(
          "offset beyond", kBad, "truncated",
          info(named(dims1 + little_endian(1, 8) + little_endian(0, 4) + little_endian(64, 8)))),
      broken_gguf("offset near 2^64", kBad, "truncated",
                  info(named(dims1 + little_endian(1, 8) + little_endian(0, 4) +
                             little_endian(~31ull, 8)))),
      broken_gguf("data cut", kBad, "truncated", [](P& p) { p.data.resize(31); }),
      broken_gguf("overlap", kBad, "overlaps",
                  [](P& p) {
                    p.infos.push_back(test::gguf_string("b") + little_endian(1, 4) +
                                      little_endian(1, 8) + little_endian(0, 4) +
                                      little_endian(0, 8));
                  }),
      broken_gguf("tensor twice", kBad, "twice", [](P& p) { p.add_tensor("a", {1}, 0, "1234"); }),
  };
  const auto file = test::fresh_dir() / "model.gguf";
  for (const auto& each : cases) expect_refused(each, file, read_gguf);
}

TEST(GgufTest, EveryTruncationOfAGoodFileIsRefused) {
  TinyModel small;
  small.layers = 1;
  small.hidden = 8;
  small.intermediate = 4;
  small.heads = small.kv_heads = 1;
  small.vocab = 4;
  const auto bytes = test::gguf_bytes(small);
  const auto file = test::fresh_dir() / "model.gguf";
  write_bytes(file, bytes);
  for (std::size_t size = bytes.size(); size-- > 0;) {
    fs::resize_file(file, size);
    ASSERT_FALSE(read_gguf(file)) << size;
  }
  write_bytes(file, bytes);
  EXPECT_TRUE(read_gguf(file));
}

TEST(GgufTest, TheSameWeightsAsGgufAndAsSafetensorsGiveTheSameBits) {
  for (const std::string dtype : {"F32", "F16", "BF16"}) {
    for (const bool tied : {false, true}) {
      TinyModel model;
      model.dtype = dtype;
      model.tied = tied;
      model.kv_heads = 2;  // fewer than heads: q and k are un-permuted by different counts
      const auto folder = test::fresh_dir();
      // Vectors are f32 in the GGUF: the same values in both.
      test::write_tiny_model(folder, model);
      write_bytes(folder / "model.gguf", test::gguf_bytes(model));
      const auto a = load(folder), b = load(folder / "model.gguf");
      ASSERT_NE(b, nullptr);
      EXPECT_EQ(b->eos_ids(), std::vector<TokenId>{2});
      test::TinyRandom random(5);
      const auto request = seeded(random_ids(random, 300, 96), 12, 8);
      expect_same(b->generate_and_wait(request).value(), a->generate_and_wait(request).value(),
                  dtype);
    }
  }
}

Errc load_error(const fs::path& path, const std::string& says) {
  const auto engine = Engine::load(path, {});
  EXPECT_FALSE(engine);
  if (engine) return {};
  EXPECT_NE(engine.error().message().find(says), std::string::npos) << engine.error().message();
  EXPECT_NE(engine.error().message().find(path.string()), std::string::npos)
      << engine.error().message();
  return engine.error().code;
}

TEST(WeightsTest, ATensorTooManyTooFewOrOfAnotherShapeIsRefused) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  const auto with = [&](const std::function<void(test::TinyTensors&)>& change) {
    auto tensors = test::tiny_tensors(TinyModel{});
    change(tensors);
    write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, "F32"));
  };
  with([](auto& t) { t.erase("lm_head.weight"); });
  EXPECT_EQ(load_error(folder, "lm_head.weight"), kBad) << "never tied in silence";
  with([](auto& t) {
    t["model.layers.2.input_layernorm.weight"] = {{32}, std::vector<float>(32)};
  });
  EXPECT_EQ(load_error(folder, "model.layers.2.input_layernorm.weight"), kBad);
  with([](auto& t) { t["model.layers.0.self_attn.q_proj.bias"] = {{32}, std::vector<float>(32)}; });
  EXPECT_EQ(load_error(folder, "q_proj.bias"), kBad);
  with([](auto& t) { t["model.norm.weight"].shape = {16, 2}; });
  EXPECT_EQ(load_error(folder, "[16, 2]"), kBad);
  with([](auto&) {});
  EXPECT_TRUE(Engine::load(folder, {}));
  // Derived tables of old converters are no weights.
  with([](auto& t) {
    t["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{4}, std::vector<float>(4)};
  });
  EXPECT_TRUE(Engine::load(folder, {}));
}

TEST(WeightsTest, ATiedModelUsesItsEmbeddingEvenWhenTheFileCarriesALmHead) {
  TinyModel tied;
  tied.tied = true;
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, tied);
  const auto request = greedy({5, 6}, 8);
  const auto expected = load(folder)->generate_and_wait(request).value();
  auto tensors = test::tiny_tensors(tied);
  tensors["lm_head.weight"] = {{96, 32}, std::vector<float>(96 * 32, 1)};
  write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, "F32"));
  expect_same(load(folder)->generate_and_wait(request).value(), expected, "tied");
}

TEST(WeightsTest, AVocabularyAloneIsNoModel) {
  const auto file = test::fresh_dir() / "vocabulary.gguf";
  GgufParts parts;
  parts.add_text("general.architecture", "llama");
  write_bytes(file, parts.bytes());
  EXPECT_EQ(load_error(file, "vocabulary"), kBad);
}

TEST(ConfigTest, WhatIsNotComputedIsRefusedByName) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  const auto with = [&](const Json& change) {
    auto config = test::tiny_config(TinyModel{});
    config.update(change);
    write_bytes(folder / "config.json", config.dump());
  };
  const std::vector<std::pair<Json, std::string>> refused{
      {{{"architectures", {"Gemma3ForConditionalGeneration"}}}, "Gemma3ForConditionalGeneration"},
      {{{"architectures", {"MambaForCausalLM"}}}, "MambaForCausalLM"},
      {{{"hidden_act", "gelu"}}, "gelu"},
      {{{"quantization_config", {{"quant_method", "fp8"}}}}, "quantization_config"},
      {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, "dynamic"},
      {{{"rope_scaling",
         {{"rope_type", "longrope"},
          {"short_factor", {1, 1, 1, 1}},
          {"original_max_position_embeddings", 512}}}},
       "longrope beyond its original context"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}, {"mscale", 0.7}}}}, "mscale"},
      {{{"rope_scaling", {{"rope_type", "mrope"}, {"factor", 2.0}}}}, "mrope"},
      {{{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      {{{"clip_qkv", 8.0}}, "clip_qkv"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {{{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping"},
      {{{"layer_types", {"full_attention", "linear_attention"}}}, "linear_attention"},
      {{{"num_local_experts", 8}}, "num_local_experts"},
  };
  for (const auto& [change, says] : refused) {
    with(change);
    EXPECT_EQ(load_error(folder, says), Errc::unsupported) << change.dump();
    EXPECT_EQ(load_error(folder, "is not supported"), Errc::unsupported);
  }
}

TEST(ConfigTest, ImpossibleSizesAndWrongTypesAreRefused) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  const std::vector<std::pair<Json, std::string>> refused{
      {{{"hidden_size", 0}}, "hidden_size"},
      {{{"hidden_size", -32}}, "hidden_size"},
      {{{"hidden_size", 32.5}}, "hidden_size"},
      {{{"hidden_size", "32"}}, "hidden_size"},
      {{{"hidden_size", nullptr}}, "hidden_size"},
      {{{"num_hidden_layers", 18446744073709551615ull}}, "num_hidden_layers"},
      {{{"num_attention_heads", 0}}, "num_attention_heads"},
      {{{"num_attention_heads", 1ull << 40}}, "num_attention_heads"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads"},
      {{{"head_dim", 7}}, "head_dim"},
      {{{"vocab_size", 1ull << 60}}, "vocab_size"},
      {{{"max_position_embeddings", 1ull << 40}}, "max_position_embeddings"},
      {{{"rms_norm_eps", -1.0}}, "rms_norm_eps"},
      {{{"rope_theta", 0.5}}, "theta"},
      {{{"rope_scaling", {{"rope_type", "linear"}}}}, "factor"},
      {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0.0}}}}, "factor"},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "original_max_position"},
      {{{"rope_scaling", "linear"}}, "rope_scaling"},
      {{{"rope_scaling", {{"rope_type", "longrope"}}}}, "short_factor"},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1, 2}}}}}, "2 rope factors"},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1, 1, 1, 0.5}}}}},
       "not between 1"},
      {{{"rope_scaling", {{"rope_type", "yarn"}}}}, "no factor"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 0.5}}}}, "factor below 1"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}, {"beta_fast", 0}}}},
       "not positive"},
      {{{"tie_word_embeddings", "no"}}, "tie_word_embeddings"},
      {{{"architectures", Json::array()}}, "architectures"},
      {{{"eos_token_id", "</s>"}}, "eos_token_id"},
      {{{"layer_types", {"full_attention"}}}, "layer_types"},
  };
  for (const auto& [change, says] : refused) {
    auto config = test::tiny_config(TinyModel{});
    config.update(change);
    write_bytes(folder / "config.json", config.dump());
    EXPECT_EQ(load_error(folder, says), kBad) << change.dump();
  }
  write_bytes(folder / "config.json", "{");
  EXPECT_EQ(load_error(folder, "config.json"), kBad);
}

TEST(ConfigTest, SizesThatTheWeightsDoNotHaveAreRefusedBeforeMemoryIsTaken) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  auto config = test::tiny_config(TinyModel{});
  config["hidden_size"] = 1u << 20;
  config["intermediate_size"] = 1u << 20;
  write_bytes(folder / "config.json", config.dump());
  EXPECT_EQ(load_error(folder, "model.embed_tokens.weight"), kBad);
}

TEST(ConfigTest, RopeParametersOfNewerFilesMeanTheSame) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  auto config = test::tiny_config(TinyModel{});
  config["rope_theta"] = 500000.0;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  write_bytes(folder / "config.json", config.dump());
  const auto request = greedy({5, 6, 7, 8, 9}, 8);
  const auto expected = load(folder)->generate_and_wait(request).value();
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "linear"}, {"factor", 2.0}};
  write_bytes(folder / "config.json", config.dump());
  expect_same(load(folder)->generate_and_wait(request).value(), expected, "rope_parameters");
}

/// The configuration that a Gemma of the first to third generation would have.
Json gemma(const std::string& generation, const Json& more) {
  TinyModel model;
  model.architecture = "Gemma" + generation + "ForCausalLM";
  model.layers = 7;
  model.config = more;
  auto json = test::tiny_config(model);
  json.erase("head_dim");
  json.erase("rope_theta");
  return parse_json(json.dump()).value();
}

TEST(ConfigTest, GemmasDefaultsAreThoseOfItsOwnConfiguration) {
  // What its files leave out or spell in an older way. hidden_act says gelu, and is not what counts.
  const auto first = config_from_json(gemma("", {{"hidden_act", "gelu"}})).value();
  EXPECT_EQ(first.activation, Activation::gelu_tanh);
  EXPECT_EQ(first.head_dim, 256u);
  EXPECT_TRUE(first.norm_plus_one);
  EXPECT_FALSE(first.post_norms);
  EXPECT_EQ(first.attention_softcap, 0);
  EXPECT_EQ(first.windows, std::vector<std::size_t>(7, 0));

  const auto second = config_from_json(gemma("2", Json::object())).value();
  EXPECT_TRUE(second.post_norms);
  EXPECT_EQ(second.attention_softcap, 50);
  EXPECT_EQ(second.final_softcap, 30);
  EXPECT_EQ(second.attention_scalar, 256);
  EXPECT_EQ(second.windows, (std::vector<std::size_t>{4096, 0, 4096, 0, 4096, 0, 4096}));
  const auto uncapped = config_from_json(gemma("2", {{"attn_logit_softcapping", nullptr}})).value();
  EXPECT_EQ(uncapped.attention_softcap, 0) << "null says that there is none";
  EXPECT_EQ(uncapped.final_softcap, 30);

  const auto third = config_from_json(gemma("3", {{"sliding_window", 512}})).value();
  EXPECT_EQ(third.rope.theta, 1e6);
  ASSERT_TRUE(third.local_rope);
  EXPECT_EQ(third.local_rope->theta, 1e4);
  EXPECT_EQ(third.attention_softcap, 0);
  EXPECT_EQ(third.windows, (std::vector<std::size_t>{512, 512, 512, 512, 512, 0, 512}));
  const auto newer =
      config_from_json(
          gemma("3", {{"rope_parameters",
                       {{"full_attention",
                         {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}}}}}))
          .value();
  EXPECT_EQ(newer.rope.theta, 2e6);
  EXPECT_EQ(newer.rope.kind, RopeKind::linear);
  EXPECT_EQ(newer.local_rope->theta, 5e3);
  EXPECT_EQ(newer.local_rope->kind, RopeKind::plain);
}

TEST(ConfigTest, GemmasEmbeddingScaleIsANumberOfTheModelsOwnType) {
  const auto scale = [](const char* dtype) {
    return config_from_json(gemma("", {{"hidden_size", 3072}, {"torch_dtype", dtype}}))
        .value()
        .embedding_scale;
  };
  EXPECT_EQ(scale("float32"), 55.425625f);
  EXPECT_EQ(scale("bfloat16"), 55.5f);
  EXPECT_EQ(scale("float16"), 55.4375f);
}

TEST(ConfigTest, QwenWindowsBeginAtTheirLayerAndOnlyWhenUsed) {
  auto json = test::tiny_config(TinyModel{});
  json["architectures"] = {"Qwen2ForCausalLM"};
  json["num_hidden_layers"] = 3;
  json["sliding_window"] = 64;
  json["max_window_layers"] = 1;
  // Through text, as a file comes: there 3 is an unsigned number.
  const auto windows = [&] {
    return config_from_json(parse_json(json.dump()).value()).value().windows;
  };
  EXPECT_EQ(windows(), (std::vector<std::size_t>{0, 0, 0}));
  json["use_sliding_window"] = true;
  EXPECT_EQ(windows(), (std::vector<std::size_t>{0, 64, 64}));
  json["layer_types"] = {"full_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(), (std::vector<std::size_t>{0, 0, 64}));
}

TEST(ModelFilesTest, PathsThatAreNoModelAreRefused) {
  const auto folder = test::fresh_dir();
  EXPECT_EQ(Engine::load(folder / "absent", {}).error().code, Errc::not_found);
  EXPECT_EQ(load_error(folder, "config.json"), Errc::not_found);
  write_bytes(folder / "notes.txt", "hello");
  EXPECT_EQ(load_error(folder / "notes.txt", "neither"), kBad);
  EXPECT_EQ(Engine::load("/dev/null", {}).error().code, kBad);
}

}  // namespace
}  // namespace verbatim::local_engine
