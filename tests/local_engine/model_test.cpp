// The forward pass against an independent one in f64, for every variant that a configuration can
// ask for.

#include "local_engine/model/model.hpp"

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/reference_model.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

struct Variant {
  std::string name;
  TinyModel model;
};

TinyModel variant(const std::string& architecture, Json config = Json::object()) {
  TinyModel model;
  model.architecture = architecture;
  model.config = std::move(config);
  return model;
}

std::vector<Variant> variants() {
  std::vector<Variant> all{
      {"llama", variant("LlamaForCausalLM")},
      {"mistral", variant("MistralForCausalLM")},
      {"window", variant("MistralForCausalLM", {{"sliding_window", 37}})},
      {"qwen2", variant("Qwen2ForCausalLM")},
      {"qwen3", variant("Qwen3ForCausalLM")},
      {"mixtral", variant("MixtralForCausalLM")},
      {"qwen3_moe", variant("Qwen3MoeForCausalLM", {{"norm_topk_prob", true}})},
      {"olmo_like", variant("Qwen3MoeForCausalLM", {{"norm_topk_prob", false}})}};
  all[3].model.qkv_bias = true;
  for (const std::size_t i : {4u, 6u, 7u}) all[i].model.qk_norm = true;
  for (const std::size_t i : {5u, 6u, 7u}) all[i].model.experts = 6;

  Variant biased{"all_biases", variant("LlamaForCausalLM")};
  biased.model.qkv_bias = biased.model.output_bias = biased.model.mlp_bias = true;
  all.push_back(biased);
  Variant tied{"tied_wide_bf16", variant("LlamaForCausalLM")};
  tied.model.tied = true;
  tied.model.dtype = "BF16";
  tied.model.hidden = 300;
  tied.model.intermediate = 530;
  tied.model.head_dim = 10;
  all.push_back(tied);
  Variant half{"f16_one_kv_head", variant("LlamaForCausalLM")};
  half.model.dtype = "F16";
  half.model.kv_heads = 1;
  half.model.vocab = 33;
  all.push_back(half);
  all.push_back(
      {"rope_linear", variant("LlamaForCausalLM",
                              {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}})});
  all.push_back(
      {"rope_llama3", variant("LlamaForCausalLM", {{"rope_scaling",
                                                    {{"rope_type", "llama3"},
                                                     {"factor", 8.0},
                                                     {"low_freq_factor", 1.0},
                                                     {"high_freq_factor", 4.0},
                                                     {"original_max_position_embeddings", 64}}}})});
  return all;
}

class ModelTest : public testing::TestWithParam<Variant> {};

TEST_P(ModelTest, LogitsAreThoseOfTheF64ReferenceUpToRounding) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, GetParam().model);
  TinyRandom random(21);
  const auto ids = random_ids(random, 290, GetParam().model.vocab);
  const auto expected = test::ReferenceModel(GetParam().model).logits(ids);

  const auto files = open_model(folder).value();
  auto model = Model::load(files, kernels::best_backend(), 1, kernels::Profile::f32_k256).value();
  SequenceKv kv(model->config().layers);
  kv.append(model->new_kv_block());
  kv.append(model->new_kv_block());
  std::vector<ForwardRow> rows;
  for (std::size_t p = 0; p < ids.size(); ++p) rows.push_back({ids[p], p, &kv, true, false});
  model->forward(rows);
  const std::size_t vocab = model->config().vocab_size;
  std::vector<float> logits(ids.size() * vocab);
  model->logits(0, ids.size(), logits.data());

  // A chain of K products of size s has an error near sqrt(K) s u with u = 2^-24; logits here are
  // of size 1 to 4 and K is at most 530. The profile rounds inverse frequencies to f32, so an angle
  // at position 290 is off by up to 290 u = 2e-5. Together 1e-5 to 2e-5 is typical; 1e-4 says that
  // something is wrong.
  double worst = 0;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    EXPECT_FALSE(rows[p].range);
    for (std::size_t i = 0; i < vocab; ++i)
      worst = std::max(worst, std::abs(double{logits[p * vocab + i]} - expected[p][i]));
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 1e-4);
  EXPECT_GT(worst, 0);  // f32 is not f64: an error of zero would mean that nothing was compared
}

TEST_P(ModelTest, WhatABlockHeldBeforeMakesNoDifference) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, GetParam().model);
  TinyRandom random(22);
  const auto ids = random_ids(random, 270, GetParam().model.vocab);
  const auto files = open_model(folder).value();
  const auto model =
      Model::load(files, kernels::best_backend(), 2, kernels::Profile::f32_k256).value();
  const auto& config = model->config();
  const auto run = [&](float left_over) {
    SequenceKv kv(config.layers);
    for (int i = 0; i < 2; ++i) {
      kv.append(model->new_kv_block());
      const std::size_t floats = kernels::kv_page_floats(config.kv_heads, config.head_dim);
      for (std::size_t layer = 0; layer < config.layers; ++layer) {
        std::fill_n(kv.pages(layer)[i].k, floats, left_over);
        std::fill_n(kv.pages(layer)[i].v, floats, left_over);
      }
    }
    std::vector<float> logits(ids.size() * config.vocab_size);
    for (std::size_t at = 0; at < ids.size();) {  // passes of 100 rows, then one by one
      const std::size_t count = at < 200 ? 100 : 1;
      std::vector<ForwardRow> rows;
      for (std::size_t p = at; p < at + count; ++p) rows.push_back({ids[p], p, &kv, true, false});
      model->forward(rows);
      model->logits(0, count, logits.data() + at * config.vocab_size);
      at += count;
    }
    return logits;
  };
  const auto clean = run(0), poisoned = run(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), clean.size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, ModelTest, testing::ValuesIn(variants()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace verbatim::local_engine
