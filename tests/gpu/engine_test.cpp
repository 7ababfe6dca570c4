// The engine on the CUDA backend: what it answers has the bits of the processor's, however requests meet. With the emulation
// no part of the host can touch the device's memory: the process ends if one does.

#include "local_engine/selfcheck.hpp"
#include "schema/canonical_json.hpp"
#include "tests/gpu/device_engine.hpp"
#include "tests/local_engine/model_bytes.hpp"
#include "tests/local_engine/quantise.hpp"

#include <fstream>
#include <future>
#include <limits>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

class VariantOnDevice : public EngineOnDevice, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Variants, VariantOnDevice,
                         testing::Range<std::size_t>(0, variants().size()));

TEST_P(VariantOnDevice, GeneratesAndScoresWithTheProcessorsBits) {
  const TinyModel model = variants()[GetParam()];
  const auto folder = written(model);
  const auto expected = load(folder, on_processor());
  const auto engine = load(folder, on_device());
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->backend(), "cuda");
  EXPECT_EQ(engine->fallback_reason(), "");
  EXPECT_EQ(engine->kv_positions_max(), expected->kv_positions_max());

  TinyRandom random(3);
  auto sampled = seeded(random_ids(random, 11, model.vocab), 4, 9);
  sampled.sampling.top_p = 0.8;
  sampled.sampling.repetition_penalty = 1.2;
  sampled.top_logprobs = 3;
  sampled.top_activations = true;
  sampled.layer_detail = LayerDetail::operators;
  for (const auto& request : {greedy(random_ids(random, 9, model.vocab), 4), sampled}) {
    const auto right = expected->generate_and_wait(request).value();
    EXPECT_EQ(right.backends, std::vector<std::string>{best()});
    const auto answer = engine->generate_and_wait(request).value();
    EXPECT_EQ(answer.backends, std::vector<std::string>{"cuda"});
    expect_same(answer, right, "generated");
    const auto scored = engine->score(request, ids_of(right)).value();
    expect_same(scored, right, "scored");
    if (!right.layer_digests) continue;
    EXPECT_EQ(answer.layer_digests->json(), right.layer_digests->json());
    EXPECT_EQ(scored.layer_digests->json(), right.layer_digests->json());
    ASSERT_EQ(answer.top_activations.size(), right.top_activations.size());
    ASSERT_FALSE(right.top_activations.empty());
    EXPECT_EQ(answer.top_activations[0].indices, right.top_activations[0].indices);
    EXPECT_EQ(answer.top_activations[0].values, right.top_activations[0].values);
  }
}

TEST_F(EngineOnDevice, RequestsThatMeetInSmallPassesDoNotDisturbEachOther) {
  for (const std::size_t which : {1u, 3u}) {
    const TinyModel model = variants()[which];
    const auto folder = written(model);
    auto options = on_device();
    options.batch_rows_max = 7;
    options.prefill_chunk = 3;
    const auto engine = load(folder, options);
    const auto expected = load(folder, on_processor());
    TinyRandom random(5);
    std::vector<GenerationRequest> requests;
    for (std::uint64_t i = 0; i < 5; ++i)
      requests.push_back(seeded(random_ids(random, 2 + 3 * i, model.vocab), 5, i));
    std::vector<std::promise<Result<GenerationResult>>> ends(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i)
      (void)engine->generate(requests[i], nullptr,
                             [&ends, i](auto result) { ends[i].set_value(std::move(result)); });
    for (std::size_t i = 0; i < requests.size(); ++i)
      expect_same(ends[i].get_future().get().value(),
                  expected->generate_and_wait(requests[i]).value(), std::to_string(i));
  }
}

TEST_F(EngineOnDevice, KeysAndValuesOfACommonBeginningAreReadFromTheCache) {
  TinyModel model = variants()[0];
  model.layers = 1;
  const auto folder = written(model);
  const auto engine = load(folder, on_device());
  const auto expected = load(folder, on_processor());
  TinyRandom random(7);
  const auto prompt = random_ids(random, 259, model.vocab);
  (void)engine->generate_and_wait(greedy(prompt, 1)).value();
  auto longer = prompt;
  longer.push_back(11);
  const auto answer = engine->generate_and_wait(greedy(longer, 3)).value();
  EXPECT_EQ(answer.cached_prompt_tokens, 256u);
  expect_same(answer, expected->generate_and_wait(greedy(longer, 3)).value(), "from the cache");
}

TEST_F(EngineOnDevice, TheAnglesOfLaterPositionsAreThere) {
  TinyModel model = variants()[0];
  model.layers = model.heads = model.kv_heads = 1;
  model.hidden = model.intermediate = 8;
  model.vocab = 20;
  model.context = 2048;
  const auto folder = written(model);
  TinyRandom random(7);
  const auto prompt = random_ids(random, 1023, model.vocab);  // the first table has 1,024
  const auto engine = load(folder, on_device());
  expect_same(engine->generate_and_wait(greedy(prompt, 4)).value(),
              load(folder, on_processor())->generate_and_wait(greedy(prompt, 4)).value(), "later");
}

TEST_F(EngineOnDevice, ARowOutOfRangeEndsItsOwnRequestAlone) {
  for (const bool moe : {false, true}) {
    TinyModel model = variants()[moe ? 3 : 0];
    auto tensors = test::tiny_tensors(model);
    tensors.at("model.embed_tokens.weight").values[5 * model.hidden] =
        std::numeric_limits<float>::quiet_NaN();
    const auto folder = test::fresh_dir();
    test::write_bytes(folder / "config.json", test::tiny_config(model).dump());
    test::write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, model.dtype));
    const auto engine = load(folder, on_device());
    EXPECT_EQ(engine->generate_and_wait(greedy({7, 5, 9}, 3)).error().code, Errc::out_of_range);
    auto healthy = greedy({7, 8}, 3);
    healthy.sampling.logit_bias = {{5, -1000}};
    expect_same(engine->generate_and_wait(healthy).value(),
                load(folder, on_processor())->generate_and_wait(healthy).value(), "healthy");
  }
}

TEST_F(EngineOnDevice, ARowOutOfRangeThatNoLogitShowsEndsItsRequestToo) {
  TinyModel model = variant("MistralForCausalLM", {{"sliding_window", 2}});
  auto tensors = test::tiny_tensors(model);
  tensors.at("model.embed_tokens.weight").values[5 * model.hidden] =
      std::numeric_limits<float>::quiet_NaN();
  const auto folder = test::fresh_dir();
  test::write_bytes(folder / "config.json", test::tiny_config(model).dump());
  test::write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, model.dtype));
  // Two layers with windows of 2 see two positions back: the last row never hears of the first.
  const auto request = greedy({5, 7, 8, 9, 10, 11}, 1);
  const auto expected = load(folder, on_processor())->generate_and_wait(request).error();
  const auto error = load(folder, on_device())->generate_and_wait(request).error();
  EXPECT_EQ(expected.code, Errc::out_of_range);
  EXPECT_EQ(error.code, Errc::out_of_range);
  EXPECT_EQ(error.what, expected.what);
}

TEST_F(EngineOnDevice, TensorCoresComputeTheirProfile) {
  const auto folder = written(variants()[8]);
  auto options = on_device(), expected = on_processor();
  options.profile = expected.profile = "mma-hopper/1";
#ifndef VERBATIM_CUDA_EMULATION
  if (const auto engine = Engine::load(folder, options);
      !engine && engine.error().code == Errc::unsupported)
    GTEST_SKIP() << "SKIPPED: " << engine.error().message();
#endif
  const auto request = seeded({7, 8, 9, 10, 11}, 3, 4);
  expect_same(load(folder, options)->generate_and_wait(request).value(),
              load(folder, expected)->generate_and_wait(request).value(), "mma-hopper/1");
}

/// Every matrix in a format of its own, as files of mixed formats have them.
std::filesystem::path written_quantised(const TinyModel& model, std::size_t shift) {
  std::size_t next = shift;
  const test::GgufEncoder encode = [&](const std::string& name, const std::vector<float>& values) {
    const bool matrix = name.find("norm") == std::string::npos && !name.ends_with(".bias");
    if (!matrix) return test::gguf_floats("F32")(name, values);
    const auto& format = test::quantised_formats()[next++ % test::quantised_formats().size()];
    return test::GgufTensor{format.number, test::Quantiser(format.dtype).bytes(values)};
  };
  auto file = test::fresh_dir() / "blocks.gguf";
  test::write_bytes(file, test::gguf_parts(model, encode).bytes());
  return file;
}

TEST_F(EngineOnDevice, QuantisedWeightsHaveTheProcessorsBits) {
  TinyModel dense;
  dense.hidden = dense.intermediate = 256;
  dense.head_dim = 64;
  dense.vocab = 70;
  dense.layers = 1;
  TinyModel biased = dense, moe = dense;
  biased.architecture = "Qwen2ForCausalLM";
  biased.qkv_bias = true;
  moe.architecture = "MixtralForCausalLM";
  moe.experts = 3;
  TinyRandom random(3);
  for (const TinyModel& model : {dense, biased, moe}) {
    for (const std::size_t shift : {0u, 5u}) {
      const auto file = written_quantised(model, shift);
      const auto request = seeded(random_ids(random, 10, model.vocab), 3, shift);
      const auto engine = load(file, on_device());
      ASSERT_NE(engine, nullptr);
      EXPECT_EQ(engine->backend(), "cuda");
      expect_same(engine->generate_and_wait(request).value(),
                  load(file, on_processor())->generate_and_wait(request).value(),
                  model.architecture);
    }
  }
}

TEST_F(EngineOnDevice, ALargeQuantisedMatrixIsDecodedInSlices) {
  TinyModel model;
  model.architecture = "Qwen2ForCausalLM";
  model.qkv_bias = true;
  model.hidden = model.intermediate = 256;
  model.heads = 130;
  model.head_dim = 128;  // q has 16,640 rows: more than 4 Mi values
  model.layers = 1;
  model.vocab = 70;
  const auto file = written_quantised(model, 0);
  const auto request = greedy({7, 8}, 1);
  expect_same(load(file, on_device())->generate_and_wait(request).value(),
              load(file, on_processor())->generate_and_wait(request).value(), "slices");
}

TEST_F(EngineOnDevice, TheSelfcheckComparesItWithTheProcessor) {
  TinyModel model;
  model.layers = model.heads = model.kv_heads = 1;
  model.hidden = model.intermediate = 8;
  model.vocab = 20;
  const auto report = selfcheck(written(model), 0, true).value();
  EXPECT_EQ(report.backends.back(), "cuda");
  EXPECT_TRUE(report.passed);
  for (const auto& finding : report.findings)
    EXPECT_EQ(finding.first_difference, "") << finding.check;
}

class GoldenOnEngine : public EngineOnDevice, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenOnEngine,
                         testing::Values("tiny-random-llama", "tiny-random-qwen3",
                                         "tiny-random-mixtral"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(GoldenOnEngine, TheFirstGoldenAnswerIsScored) {
  VERBATIM_NEED_SHARED(folder, "data/models/" + GetParam());
  std::ifstream in(folder / "golden-f32-k256.jsonl");
  std::string text;
  ASSERT_TRUE(std::getline(in, text));
  const Json line = parse_json(text).value();
  const auto ids = line.at("greedy_ids").get<std::vector<TokenId>>();
  const auto result = load(folder, on_device())
                          ->score(greedy(line.at("prompt_ids").get<std::vector<TokenId>>(), 0), ids)
                          .value();
  EXPECT_EQ(result.logits_digest.hex(), line.at("logits_digest").get<std::string>());
  for (const auto& token : result.tokens) EXPECT_TRUE(token.chosen);
}

}  // namespace
}  // namespace verbatim::local_engine
