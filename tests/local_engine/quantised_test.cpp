// Quantised GGUFs: an engine on the blocks gives, bit for bit, what an engine gives on an F32 file of
// the values that the blocks stand for.

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/model_bytes.hpp"
#include "tests/local_engine/quantise.hpp"

namespace verbatim::local_engine {
namespace {

namespace fs = std::filesystem;
using test::GgufTensor;
using test::QuantisedFormat;
using test::TinyModel;

/// Every row is a multiple of 256.
TinyModel wide() {
  TinyModel model;
  model.hidden = 256;
  model.intermediate = 512;
  model.head_dim = 64;
  model.vocab = 70;
  return model;
}

/// Which format a tensor gets, or null for F32.
using Choose = std::function<const QuantisedFormat*(const std::string& name)>;

bool is_matrix(const std::string& name) {
  return name.find("norm") == std::string::npos && !name.ends_with(".bias");
}

/// The blocks, or what they stand for as F32. `worst`: the largest change of a weight.
test::GgufEncoder encoder(const Choose& choose, bool blocks, float* worst = nullptr) {
  return [=](const std::string& name, const std::vector<float>& values) {
    const QuantisedFormat* format = is_matrix(name) ? choose(name) : nullptr;
    if (format == nullptr) return test::gguf_floats("F32")(name, values);
    const std::string bytes = test::Quantiser(format->dtype).bytes(values);
    std::vector<float> decoded(values.size());
    kernels::to_f32(bytes.data(), format->dtype, decoded.size(), decoded.data());
    for (std::size_t i = 0; worst != nullptr && i < values.size(); ++i)
      *worst = std::max(*worst, std::abs(decoded[i] - values[i]));
    return blocks ? GgufTensor{format->number, bytes} : test::gguf_floats("F32")(name, decoded);
  };
}

void expect_blocks_equal_their_values(const TinyModel& model, const Choose& choose,
                                      float change_max) {
  const auto folder = test::fresh_dir();
  float worst = 0;
  test::write_bytes(folder / "blocks.gguf",
                    test::gguf_parts(model, encoder(choose, true, &worst)).bytes());
  test::write_bytes(folder / "values.gguf",
                    test::gguf_parts(model, encoder(choose, false)).bytes());
  EXPECT_LT(fs::file_size(folder / "blocks.gguf"), fs::file_size(folder / "values.gguf") / 2);
  EXPECT_GT(worst, 0);
  EXPECT_LT(worst, change_max) << "the test's quantiser is wrong";

  test::TinyRandom random(3);
  const std::vector<GenerationRequest> requests{
      greedy(random_ids(random, 300, model.vocab), 8),
      seeded(random_ids(random, 5, model.vocab), 24, 9),
  };
  const auto values = load(folder / "values.gguf", with_backend("scalar"));
  ASSERT_NE(values, nullptr);
  for (const auto backend : kernels::supported_backends()) {
    const auto blocks =
        load(folder / "blocks.gguf", with_backend(std::string(kernels::name(backend))));
    ASSERT_NE(blocks, nullptr);
    for (const auto& request : requests) {
      const auto expected = values->generate_and_wait(request).value();
      expect_same(blocks->generate_and_wait(request).value(), expected, "generated");
      expect_same(blocks->score(request, ids_of(expected)).value(), expected, "scored");
    }
  }
}

class QuantisedModelTest : public testing::TestWithParam<QuantisedFormat> {};

TEST_P(QuantisedModelTest, GivesTheBitsOfAnF32FileOfTheSameValues) {
  TinyModel model = wide();
  model.layers = 1;
  const auto all = [](const std::string&) { return &GetParam(); };
  // Weights are up to 2.5 / sqrt(256) = 0.16: a step of 4 bits is a fifteenth of twice that.
  expect_blocks_equal_their_values(model, all, 0.02f);
  model.tied = true;
  expect_blocks_equal_their_values(model, all, 0.02f);
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedModelTest, testing::ValuesIn(test::quantised_formats()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(QuantisedModelTest, FormatsMayDifferFromTensorToTensor) {
  const auto mixed = [](const std::string& name) -> const QuantisedFormat* {
    std::size_t sum = 0;
    for (const char c : name) sum += static_cast<unsigned char>(c);
    const auto& all = test::quantised_formats();
    return sum % 9 == 8 ? nullptr : &all[sum % 9];
  };
  expect_blocks_equal_their_values(wide(), mixed, 0.02f);
}

TEST(QuantisedModelTest, ExpertsInOneTensorAreDecodedEachByItself) {
  for (const std::string architecture : {"MixtralForCausalLM", "Qwen3MoeForCausalLM"}) {
    TinyModel model = wide();
    model.architecture = architecture;
    model.qk_norm = architecture == "Qwen3MoeForCausalLM";
    model.experts = 3;
    model.intermediate = 256;
    const auto& formats = test::quantised_formats();
    expect_blocks_equal_their_values(
        model,
        [&](const std::string& name) {
          return &formats[name.find("down") == std::string::npos ? 5 : 7];
        },
        0.02f);
  }
}

/// A small file whose blk.0.ffn_up.weight is quantised.
test::GgufParts small(const QuantisedFormat& format) {
  return test::gguf_parts(wide(), encoder(
                                      [&](const std::string& name) {
                                        return name == "blk.0.ffn_up.weight" ? &format : nullptr;
                                      },
                                      true));
}

/// The info of one tensor of `parts`.
std::string& info_of(test::GgufParts& parts, const std::string& tensor) {
  return *std::find_if(parts.infos.begin(), parts.infos.end(), [&](const auto& info) {
    return info.starts_with(test::gguf_string(tensor));
  });
}

void expect_refused(const fs::path& file, const std::string& bytes, Errc code,
                    const std::string& says) {
  test::write_bytes(file, bytes);
  const auto engine = Engine::load(file, {});
  ASSERT_FALSE(engine) << says;
  EXPECT_EQ(engine.error().code, code) << engine.error().message();
  EXPECT_NE(engine.error().message().find(says), std::string::npos) << engine.error().message();
}

TEST(QuantisedModelTest, RowsThatAreNoWholeNumberOfBlocksAreRefusedByName) {
  const auto file = test::fresh_dir() / "model.gguf";
  for (const auto& format : test::quantised_formats()) {
    auto parts = small(format);
    // (cols, rows) = (248, 528) in place of (256, 512): nearly as many elements, but ragged rows.
    std::string& info = info_of(parts, "blk.0.ffn_up.weight");
    const std::string name = test::gguf_string("blk.0.ffn_up.weight");
    info = name + test::little_endian(2, 4) + test::little_endian(248, 8) +
           test::little_endian(528, 8) + info.substr(info.size() - 12);
    expect_refused(file, parts.bytes(), Errc::invalid_input,
                   "'blk.0.ffn_up.weight' has the impossible shape [528, 248] of " + format.name);
  }
}

TEST(QuantisedModelTest, ATruncatedTensorIsRefusedByName) {
  const auto file = test::fresh_dir() / "model.gguf";
  for (const auto& format : test::quantised_formats()) {
    test::GgufParts parts;
    parts.add_text("general.architecture", "llama");
    const auto layout = kernels::block_layout(format.dtype);
    parts.add_tensor("a", {layout.elements * 2}, format.number,
                     std::string(layout.bytes * 2, '\0'));
    for (const std::size_t missing : {std::size_t{1}, layout.bytes}) {
      auto cut = parts;
      cut.data.resize(cut.data.size() - missing);
      expect_refused(file, cut.bytes(), Errc::invalid_input, "truncated: tensor 'a'");
    }
  }
}

TEST(QuantisedModelTest, AFormatThatIsNotDecodedIsRefusedByName) {
  const auto file = test::fresh_dir() / "model.gguf";
  auto parts = small(test::quantised_formats()[3]);
  std::string& info = info_of(parts, "blk.0.ffn_up.weight");
  info.replace(info.size() - 12, 4, test::little_endian(20, 4));  // IQ4_NL: smaller blocks of 32
  expect_refused(file, parts.bytes(), Errc::unsupported,
                 "'blk.0.ffn_up.weight' is of type IQ4_NL, which is not supported");
}

TEST(QuantisedModelTest, AFileThatChangesUnderTheEngineEndsItsAnswers) {
  const auto file = test::fresh_dir() / "model.gguf";
  test::write_bytes(file, small(test::quantised_formats()[0]).bytes());
  const auto engine = load(file);
  const auto request = greedy({5, 6, 7}, 4);
  ASSERT_TRUE(engine->generate_and_wait(request));
  // Another file under the same name is not the one that was loaded.
  fs::rename(file, file.string() + ".old");
  test::write_bytes(file, "something else");
  ASSERT_TRUE(engine->generate_and_wait(request));
  fs::last_write_time(file.string() + ".old",
                      fs::file_time_type::clock::now() + std::chrono::seconds(5));
  const auto result = engine->generate_and_wait(request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::storage_failed);
  EXPECT_NE(result.error().message().find("changed while it was in use"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::local_engine
