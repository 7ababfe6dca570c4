// Digests of what the layers compute: they cost no bit, do not depend on how an answer was computed, and lead to the
// operator that gave another result.

#include "local_engine/layer_digests.hpp"

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <fstream>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;
using test::TinyTensors;

EngineOptions one_thread(const std::string& backend = "auto") {
  EngineOptions options = with_backend(backend);
  options.threads = 1;
  return options;
}

void write_model(const std::filesystem::path& folder, const TinyModel& model,
                 const TinyTensors& tensors) {
  std::filesystem::create_directories(folder);
  test::write_bytes(folder / "config.json", test::tiny_config(model).dump(1));
  test::write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, model.dtype));
}

TinyModel small(const std::string& architecture, Json config = Json::object()) {
  TinyModel model;
  model.architecture = architecture;
  model.layers = 3;
  model.config = std::move(config);
  return model;
}

GenerationRequest watched(GenerationRequest request, LayerDetail detail) {
  request.layer_detail = detail;
  return request;
}

Digest8 digest_of(std::uint8_t value) { return {value}; }

/// `positions` positions of a model with two layers, all digests 0.
LayerDigests made(std::size_t positions, std::size_t outputs_from) {
  LayerDigests digests(LayerDetail::residual);
  for (std::size_t p = 0; p < positions; ++p) {
    digests.add({0, Operator::embedding}, p, {});
    for (const std::size_t layer : {0u, 1u}) {
      digests.add({layer, Operator::attention_residual}, p, {});
      digests.add({layer, Operator::feed_forward_residual}, p, {});
    }
    if (p < outputs_from) continue;
    digests.add({LayerStage::kAfterLayers, Operator::final_norm}, p, {});
    digests.add({LayerStage::kAfterLayers, Operator::logits}, p, {});
  }
  return digests;
}

/// The same with other digests of one stage from one position on.
LayerDigests changed(const LayerDigests& of, const std::vector<LayerStage>& stages,
                     std::size_t from) {
  LayerDigests out(LayerDetail::residual);
  for (const auto& [id, stage] : of.stages()) {
    for (std::size_t i = 0; i < stage.digests.size(); ++i) {
      const std::size_t position = stage.first + i;
      const bool here = std::find(stages.begin(), stages.end(), id) != stages.end();
      out.add(id, position, here && position >= from ? digest_of(1) : stage.digests[i]);
    }
  }
  return out;
}

constexpr LayerStage kAttention1{1, Operator::attention_residual};
constexpr LayerStage kFeedForward0{0, Operator::feed_forward_residual};
constexpr LayerStage kFeedForward1{1, Operator::feed_forward_residual};

TEST(LayerDigests, DoNotChangeABitOfTheResult) {
  const auto folder = test::fresh_dir();
  TinyModel model = small("MixtralForCausalLM");
  model.experts = 4;
  test::write_tiny_model(folder, model);
  const auto engine = load(folder, one_thread());
  TinyRandom random(1);
  const auto request = seeded(random_ids(random, 30, model.vocab), 20, 5);
  const auto plain = engine->generate_and_wait(request).value();
  const auto with = engine->generate_and_wait(watched(request, LayerDetail::operators)).value();
  expect_same(plain, with, "watched");
  EXPECT_FALSE(plain.layer_digests);
  ASSERT_TRUE(with.layer_digests);
  EXPECT_EQ(with.layer_digests->positions(), 49u);  // the last token is chosen, and never fed
}

TEST(LayerDigests, AreOfTheFloatsAsTheyAre) {
  const std::vector<float> values{1.0f, -0.0f};
  // SHA-256 of 00 00 80 3f 00 00 00 80.
  EXPECT_EQ(to_hex(values_digest(values)), to_hex(values_digest({values.data(), 2})));
  EXPECT_NE(values_digest(values), values_digest(std::vector<float>{1.0f, 0.0f}));
  const std::vector<std::uint8_t> bytes{0, 0, 0x80, 0x3f, 0, 0, 0, 0x80};
  EXPECT_EQ(to_hex(values_digest(values)), sha256(Bytes(bytes)).hex().substr(0, 16));
}

TEST(LayerDigests, OfTheLogitsAreTheRowDigests) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, small("LlamaForCausalLM"));
  const auto engine = load(folder, one_thread());
  const auto result =
      engine->generate_and_wait(watched(greedy({3, 4, 5}, 6), LayerDetail::residual)).value();
  const auto& logits =
      result.layer_digests->stages().at({LayerStage::kAfterLayers, Operator::logits});
  EXPECT_EQ(logits.first, 2u);
  ASSERT_EQ(logits.digests.size(), result.tokens.size());
  for (std::size_t i = 0; i < result.tokens.size(); ++i)
    EXPECT_EQ(logits.digests[i], result.tokens[i].row_digest8);
}

TEST(LayerDigests, AreTheSameForEveryBackendChunkAndBatchAndForPrefillAndDecode) {
  const auto folder = test::fresh_dir();
  TinyModel model = small("Qwen3MoeForCausalLM", {{"norm_topk_prob", true}});
  model.qk_norm = true;
  model.experts = 4;
  test::write_tiny_model(folder, model);
  TinyRandom random(2);
  const auto request =
      watched(greedy(random_ids(random, 300, model.vocab), 12), LayerDetail::operators);
  const auto first = load(folder, one_thread("scalar"))->generate_and_wait(request).value();
  std::vector<GenerationResult> others;
  for (const auto backend : kernels::supported_backends()) {
    EngineOptions options = one_thread(std::string(kernels::name(backend)));
    options.prefill_chunk = 7;
    options.threads = 2;
    const auto engine = load(folder, options);
    const auto neighbour =
        engine->generate(greedy(random_ids(random, 50, model.vocab), 40), nullptr, [](auto) {});
    others.push_back(engine->generate_and_wait(request).value());
    others.push_back(engine->score(request, ids_of(first)).value());
    // What the prefix cache now holds is computed again.
    others.push_back(engine->generate_and_wait(request).value());
  }
  for (const auto& other : others) {
    EXPECT_EQ(other.layer_digests->stages(), first.layer_digests->stages());
    const auto compared = compare_layers(*first.layer_digests, *other.layer_digests).value();
    EXPECT_FALSE(compared.first);
    EXPECT_EQ(compared.positions, 311u);
    EXPECT_GT(compared.stages, 3u * 15u);
  }
}

/// The operator that a tensor belongs to.
Operator operator_of(const std::string& tensor, bool experts) {
  const auto has = [&](const char* part) { return tensor.find(part) != std::string::npos; };
  if (has("embed_tokens")) return Operator::embedding;
  if (has("lm_head")) return Operator::logits;
  if (has("input_layernorm")) return Operator::attention_norm;
  if (has("pre_feedforward_layernorm")) return Operator::feed_forward_norm;
  if (has("post_feedforward_layernorm")) return Operator::feed_forward_post_norm;
  if (has("q_norm")) return Operator::q_norm;
  if (has("k_norm")) return Operator::k_norm;
  if (has("q_proj")) return Operator::q;
  if (has("k_proj")) return Operator::k;
  if (has("v_proj")) return Operator::v;
  if (has("o_proj")) return Operator::attention_output;
  if (has("mlp.gate.") || has("moe.gate.")) return Operator::router;
  if (has("gate_proj") || has(".w1.")) return Operator::gate;
  if (has("up_proj") || has(".w3.")) return Operator::up;
  if (has("down_proj") || has(".w2.")) return Operator::down;
  if (!has("layers.")) return Operator::final_norm;
  EXPECT_TRUE(has("post_attention_layernorm")) << tensor;
  return experts ? Operator::router : Operator::feed_forward_norm;
}

struct Shape {
  std::string name;
  TinyModel model;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all{
      {"llama_all_biases", small("LlamaForCausalLM")},
      {"qwen3", small("Qwen3ForCausalLM")},
      {"gemma2", small("Gemma2ForCausalLM", {{"hidden_activation", "gelu_pytorch_tanh"},
                                             {"query_pre_attn_scalar", 8},
                                             {"sliding_window", 16},
                                             {"attn_logit_softcapping", 50.0},
                                             {"final_logit_softcapping", 30.0}})},
      {"mixtral", small("MixtralForCausalLM")},
      {"qwen3_moe", small("Qwen3MoeForCausalLM", {{"norm_topk_prob", true}})}};
  all[0].model.qkv_bias = all[0].model.output_bias = all[0].model.mlp_bias = true;
  all[1].model.qk_norm = all[4].model.qk_norm = true;
  all[2].model.tied = true;
  all[3].model.experts = all[4].model.experts = 4;
  return all;
}

class EveryTensor : public testing::TestWithParam<Shape> {};

TEST_P(EveryTensor, ThatIsChangedIsFoundByItsLayerAndOperator) {
  const TinyModel& model = GetParam().model;
  const TinyTensors tensors = test::tiny_tensors(model);
  const auto folder = test::fresh_dir();
  write_model(folder / "first", model, tensors);
  TinyRandom random(3);
  const auto request =
      watched(greedy(random_ids(random, 40, model.vocab), 8), LayerDetail::operators);
  const auto honest = load(folder / "first", one_thread())->generate_and_wait(request).value();

  std::size_t without_effect = 0;
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    TinyTensors other = tensors;
    for (float& value : other[name].values) value *= 1.5f;
    write_model(folder / name, model, other);
    const auto result = load(folder / name, one_thread())->score(request, ids_of(honest)).value();
    const auto found = compare_layers(*honest.layer_digests, *result.layer_digests).value();
    if (!found.first) {
      // An expert that no row chose: what it holds has no effect at all.
      EXPECT_NE(name.find("experts"), std::string::npos);
      EXPECT_EQ(result.logits_digest, honest.logits_digest);
      ++without_effect;
      continue;
    }
    const bool post_norms = model.architecture == "Gemma2ForCausalLM";
    const bool after_attention = name.find("post_attention_layernorm") != std::string::npos;
    LayerStage expected{0, operator_of(name, false)};
    if (after_attention && post_norms) expected.op = Operator::attention_post_norm;
    if (expected.in_a_layer()) {
      expected.layer = static_cast<std::size_t>(name.at(std::string("model.layers.").size()) - '0');
    } else if (expected.op != Operator::embedding) {
      expected.layer = LayerStage::kAfterLayers;
    }
    EXPECT_EQ(found.first->stage.str(), expected.str());
    // What follows from it is no cause of its own.
    EXPECT_EQ(found.causes.size(), 1u);
    // The residual stream alone names the layer and its half.
    LayerDigests residual(LayerDetail::residual);
    for (const auto& [id, stage] : result.layer_digests->stages()) {
      if (!residual.wants(id.op)) continue;
      for (std::size_t i = 0; i < stage.digests.size(); ++i)
        residual.add(id, stage.first + i, stage.digests[i]);
    }
    const auto coarse = compare_layers(*honest.layer_digests, residual).value();
    ASSERT_TRUE(coarse.first);
    EXPECT_EQ(coarse.first->stage.layer, expected.layer);
    if (expected.in_a_layer()) {
      EXPECT_EQ(coarse.first->stage.op, expected.op <= Operator::attention_residual
                                            ? Operator::attention_residual
                                            : Operator::feed_forward_residual);
    }
  }
  EXPECT_LE(without_effect, 3u);  // of dozens of matrices, one expert's
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryTensor, testing::ValuesIn(shapes()),
                         [](const auto& shape) { return shape.param.name; });

TEST(LayerDigests, OtherAnglesAreFoundAtTheRotation) {
  const auto folder = test::fresh_dir();
  TinyModel model = small("LlamaForCausalLM");
  for (const double theta : {10000.0, 20000.0}) {
    model.config["rope_theta"] = theta;
    write_model(folder / std::to_string(theta), model, test::tiny_tensors(model));
  }
  const auto request = watched(greedy({5, 6, 7, 8}, 3), LayerDetail::operators);
  const auto a =
      load(folder / std::to_string(10000.0), one_thread())->generate_and_wait(request).value();
  const auto b =
      load(folder / std::to_string(20000.0), one_thread())->score(request, ids_of(a)).value();
  const auto found = compare_layers(*a.layer_digests, *b.layer_digests).value();
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->stage, (LayerStage{0, Operator::q_rotated}));
  EXPECT_EQ(found.first->position, 1u);  // position 0 is not rotated
}

TEST(CompareLayers, TwoCausesAreBothNamedAndWhatFollowsIsNot) {
  const auto a = made(10, 4);
  const auto b = changed(changed(a, {kFeedForward1}, 0), {kFeedForward0, kAttention1}, 6);
  const auto found = compare_layers(a, b).value();
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->stage, kFeedForward1);
  EXPECT_EQ(found.first->position, 0u);
  ASSERT_EQ(found.causes.size(), 2u);
  EXPECT_EQ(found.causes[0].stage, kFeedForward0);
  EXPECT_EQ(found.causes[0].position, 6u);
  EXPECT_EQ(found.causes[0].blocks, 4u);
  EXPECT_EQ(found.causes[1].blocks, 6u);
}

TEST(CompareLayers, WhatAttendsToAnEarlierDifferenceFollowsFromIt) {
  const auto a = made(10, 4);
  auto b = LayerDigests(LayerDetail::residual);
  for (const auto& [id, stage] : a.stages()) {
    for (std::size_t i = 0; i < stage.digests.size(); ++i) {
      const std::size_t p = stage.first + i;
      const bool own = p == 3 && id >= kFeedForward0;
      const bool follows = p > 3 && id >= kAttention1;
      b.add(id, p, own || follows ? digest_of(1) : stage.digests[i]);
    }
  }
  const auto found = compare_layers(a, b).value();
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.first->stage, kFeedForward0);
  EXPECT_EQ(found.first->position, 3u);
}

TEST(CompareLayers, BlocksGiveAPositionUpToTheirLength) {
  const auto a = made(23, 5);
  const auto b = changed(a, {kAttention1, kFeedForward1}, 13);
  const auto coarse = compare_layers(a.in_blocks(4), b).value();
  ASSERT_TRUE(coarse.first);
  EXPECT_EQ(coarse.first->stage, kAttention1);
  EXPECT_EQ(coarse.first->position, 12u);
  EXPECT_EQ(coarse.first->last_position, 15u);
  EXPECT_EQ(coarse.positions, 23u);
  EXPECT_FALSE(compare_layers(a.in_blocks(4), a.in_blocks(4)).value().first);
  EXPECT_EQ(compare_layers(a.in_blocks(4), a.in_blocks(8)).error().code, Errc::invalid_input);
}

TEST(CompareLayers, StopsBeforeTokensThatDiffer) {
  const auto a = made(23, 5);
  const auto b = changed(a, {kFeedForward1}, 13);
  EXPECT_FALSE(compare_layers(a, b, 13).value().first);
  EXPECT_FALSE(compare_layers(a.in_blocks(8), b, 15).value().first);
  EXPECT_TRUE(compare_layers(a, b, 14).value().first);
}

TEST(CompareLayers, RefusesModelsOfOtherShapes) {
  LayerDigests other(LayerDetail::residual);
  other.add({0, Operator::attention_residual}, 0, {});
  const auto found = compare_layers(made(3, 1), other);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::invalid_input);
}

TEST(LayerDigests, FitIntoABoundOfBytes) {
  const auto digests = made(100, 20);
  EXPECT_EQ(digests.bytes(), (5u * 100 + 2 * 80) * 8);
  EXPECT_EQ(digests.within(1 << 20)->block(), 1u);
  const auto some = digests.within(1000);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->block(), 8u);
  EXPECT_LE(some->bytes(), 1000u);
  EXPECT_EQ(digests.within(56)->block(), 128u);
  EXPECT_FALSE(digests.within(55));
}

TEST(LayerDigests, ReadBackAsTheyWereWritten) {
  const auto digests = changed(made(23, 5), {kAttention1}, 2);
  for (const std::size_t block : {1u, 4u, 32u}) {
    const auto written = digests.in_blocks(block);
    const auto read = LayerDigests::from_json(Json::parse(written.json().dump())).value();
    EXPECT_EQ(read.stages(), written.stages());
    EXPECT_EQ(read.block(), block);
    EXPECT_EQ(read.positions(), 23u);
    EXPECT_EQ(read.json(), written.json());
  }
}

TEST(LayerDigests, ThatAreMalformedAreRefused) {
  const Json good = made(23, 5).json();
  ASSERT_TRUE(LayerDigests::from_json(good));
  const std::vector<std::pair<std::string, Json>> changes{
      {"/detail", "all"},
      {"/positions", -1},
      {"/positions", 24},
      {"/positions", 1e18},
      {"/positions", 0},
      {"/block", 0},
      {"/block", 2},
      {"/block", "1"},
      {"/stages", Json::object()},
      {"/stages/0", 7},
      {"/stages/0/operator", "softmax"},
      {"/stages/0/layer", 0},
      {"/stages/1/layer", -1},
      {"/stages/1/layer", 1u << 30},
      {"/stages/1/layer", nullptr},
      {"/stages/1/operator", "feed_forward_residual"},
      {"/stages/1/first", 24},
      {"/stages/1/first", 1},
      {"/stages/1/digests", "0g"},
      {"/stages/1/digests", ""},
      {"/stages/1/digests", 3}};
  for (const auto& [at, value] : changes) {
    Json bad = good;
    bad[Json::json_pointer(at)] = value;
    const auto read = LayerDigests::from_json(bad);
    ASSERT_FALSE(read) << at << " = " << value;
    EXPECT_EQ(read.error().code, Errc::invalid_input);
  }
  EXPECT_FALSE(LayerDigests::from_json(Json()));
}

}  // namespace
}  // namespace verbatim::local_engine
