// Profile mma-hopper/1 as an engine sees it: which weights it is about, and what leaves it.

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/model_bytes.hpp"
#include "tests/local_engine/quantise.hpp"

#include <cmath>
#include <future>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;

EngineOptions under(const std::string& profile) {
  EngineOptions options;
  options.profile = profile;
  return options;
}

GenerationResult answer(const std::filesystem::path& model, const std::string& profile) {
  const auto engine = load(model, under(profile));
  EXPECT_EQ(engine->profile(), profile);
  return engine->generate_and_wait(greedy({5, 9, 17, 4}, 12)).value();
}

TEST(ProfileTest, HalfWeightsGiveOtherBitsAndF32WeightsTheSame) {
  for (const std::string dtype : {"F32", "BF16", "F16"}) {
    TinyModel model;
    model.dtype = dtype;
    const auto folder = test::fresh_dir("-" + dtype);
    test::write_tiny_model(folder, model);
    const auto chains = answer(folder, "f32-k256/1"), cores = answer(folder, "mma-hopper/1");
    EXPECT_EQ(chains.logits_digest == cores.logits_digest, dtype == "F32") << dtype;
  }
}

TEST(ProfileTest, QuantisedWeightsGiveTheSameBits) {
  TinyModel model;
  model.hidden = 64;
  model.intermediate = 96;
  const auto file = test::fresh_dir() / "q8.gguf";
  const auto q8_0 = [](const std::string& name, const std::vector<float>& values) {
    if (name.find("norm") != std::string::npos) return test::gguf_floats("F32")(name, values);
    constexpr std::uint32_t kQ8_0 = 8;
    return test::GgufTensor{kQ8_0, test::Quantiser(kernels::Dtype::q8_0).bytes(values)};
  };
  test::write_bytes(file, test::gguf_parts(model, q8_0).bytes());
  EXPECT_EQ(answer(file, "f32-k256/1").logits_digest, answer(file, "mma-hopper/1").logits_digest);
}

/// A model whose token 5 has an embedding of about 2^-120: normalised it is 2^-112, and so are its sums, where published
/// models of the hardware disagree.
std::filesystem::path with_tiny_token(TinyModel model) {
  model.dtype = "BF16";
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, model);
  auto tensors = test::tiny_tensors(model);
  auto& embedding = tensors.at("model.embed_tokens.weight").values;
  for (std::size_t i = 0; i < model.hidden; ++i)
    embedding[5 * model.hidden + i] = std::ldexp(i % 3 == 0 ? -1.0f : 1.0f, -120);
  test::write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, model.dtype));
  return folder;
}

TEST(ProfileTest, ARequestThatLeavesTheRangeEndsAndItsNeighboursDoNot) {
  const auto folder = with_tiny_token({});
  const auto tiny = greedy({7, 5, 9}, 6);
  auto ordinary = greedy({7, 8, 9}, 20);
  ordinary.sampling.logit_bias = {{5, -1000}};
  EXPECT_TRUE(load(folder)->generate_and_wait(tiny));  // in f32-k256/1 a small number is a number
  const auto expected = load(folder, under("mma-hopper/1"))->generate_and_wait(ordinary).value();
  for (const auto backend : kernels::supported_backends()) {
    EngineOptions options = under("mma-hopper/1");
    options.backend = std::string(kernels::name(backend));
    const auto engine = load(folder, options);
    std::vector<std::promise<Result<GenerationResult>>> ends(6);
    for (std::size_t i = 0; i < ends.size(); ++i)
      (void)engine->generate(i % 2 == 0 ? ordinary : tiny, nullptr,
                             [&ends, i](auto result) { ends[i].set_value(std::move(result)); });
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const auto result = ends[i].get_future().get();
      if (i % 2 == 0) {
        expect_same(result.value(), expected, options.backend);
      } else {
        ASSERT_FALSE(result) << options.backend;
        EXPECT_EQ(result.error().code, Errc::out_of_range);
      }
    }
    EXPECT_EQ(engine->score(greedy({7, 8}, 0), {5, 9}).error().code, Errc::out_of_range);
  }
}

TEST(ProfileTest, TheRangeIsKeptInPositionsThatNoLaterOneLooksAt) {
  TinyModel model;
  model.architecture = "MistralForCausalLM";
  model.layers = 1;
  model.config = {{"sliding_window", 2}};
  const auto folder = with_tiny_token(model);
  const auto request = greedy({5, 7, 8, 9, 10}, 2);
  EXPECT_TRUE(load(folder)->generate_and_wait(request));
  const auto engine = load(folder, under("mma-hopper/1"));
  EXPECT_TRUE(engine->generate_and_wait(greedy({6, 7, 8, 9, 10}, 2)));
  const auto refused = engine->generate_and_wait(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::out_of_range);
}

}  // namespace
}  // namespace verbatim::local_engine
