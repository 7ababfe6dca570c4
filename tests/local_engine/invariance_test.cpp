// An answer is a function of the request and the weights alone.

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <future>
#include <list>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

/// Wider than one block of K, more positions than one block of KV, an odd number of outputs.
TinyModel wide() {
  TinyModel model;
  model.hidden = 272;
  model.intermediate = 310;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 20;
  model.vocab = 131;
  model.context = 2048;
  return model;
}

TinyModel windowed() {
  TinyModel model;
  model.architecture = "MistralForCausalLM";
  model.context = 2048;
  model.config = {{"sliding_window", 300}};
  return model;
}

TinyModel experts() {
  TinyModel model;
  model.architecture = "Qwen3MoeForCausalLM";
  model.qk_norm = true;
  model.experts = 5;
  model.config = {{"norm_topk_prob", false}};
  return model;
}

/// Soft-caps, norms after the branches, every second layer with a window beyond one block.
/// One product of which goes over a block of 256, and is not a multiple of 16: for a profile that is slow to compute.
TinyModel two_blocks() {
  TinyModel model;
  model.intermediate = 264;
  model.layers = 1;
  return model;
}

TinyModel gemma2() {
  TinyModel model;
  model.architecture = "Gemma2ForCausalLM";
  model.tied = true;
  model.context = 2048;
  model.layers = 3;
  model.config = {{"sliding_window", 300},
                  {"query_pre_attn_scalar", 11},
                  {"attn_logit_softcapping", 3.0},
                  {"final_logit_softcapping", 2.0}};
  return model;
}

/// Two tables of angles, one for the layers with a window.
TinyModel gemma3() {
  TinyModel model;
  model.architecture = "Gemma3ForCausalLM";
  model.tied = true;
  model.qk_norm = true;
  model.context = 2048;
  model.layers = 3;
  model.config = {{"sliding_window", 260},
                  {"sliding_window_pattern", 3},
                  {"query_pre_attn_scalar", 8},
                  {"rope_theta", 1e6},
                  {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  return model;
}

TinyModel phi3() {
  TinyModel model;
  model.architecture = "Phi3ForCausalLM";
  model.context = 2048;
  model.config = {
      {"sliding_window", 270},
      {"partial_rotary_factor", 0.75},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.5, 4.0}}, {"attention_factor", 1.2}}}};
  return model;
}

TinyModel olmoe() {
  TinyModel model = experts();
  model.architecture = "OlmoeForCausalLM";
  model.context = 2048;
  model.config = {
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}}}};
  return model;
}

TinyModel stored_as(const std::string& dtype, TinyModel model) {
  model.dtype = dtype;
  return model;
}

struct Named {
  std::string name;
  TinyModel model;
  std::string profile = "f32-k256/1";
};

class InvarianceTest : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    folder_ = test::fresh_dir();
    test::write_tiny_model(folder_, GetParam().model);
  }
  /// Prompts around the block's edge, greedy and seeded, with penalties, filters and top
  /// log-probabilities.
  std::vector<GenerationRequest> requests() const {
    TinyRandom random(7);
    const auto vocab = GetParam().model.vocab;
    std::vector<GenerationRequest> all;
    all.push_back(greedy(random_ids(random, 1, vocab), 24));
    all.push_back(greedy(random_ids(random, 255, vocab), 8));
    all.push_back(seeded(random_ids(random, 256, vocab), 8, 1));
    all.push_back(seeded(random_ids(random, 300, vocab), 6, ~0ull, 1.3));
    all.push_back(seeded(random_ids(random, 20, vocab), 30, 5));
    all.back().sampling.top_k = 20;
    all.back().sampling.top_p = 0.9;
    all.back().sampling.min_p = 0.02;
    all.back().sampling.repetition_penalty = 1.1;
    all.back().sampling.presence_penalty = 0.3;
    all.back().sampling.frequency_penalty = 0.2;
    all.back().sampling.logit_bias = {{5, 1.5}, {9, -2.0}};
    all.back().top_logprobs = 3;
    all.push_back(greedy(random_ids(random, 514, vocab), 5));
    return all;
  }
  static EngineOptions options_of_profile() {
    EngineOptions options;
    options.profile = GetParam().profile;
    return options;
  }
  /// Each request by itself, by the plainest engine there is.
  std::vector<GenerationResult> alone() const {
    EngineOptions options = options_of_profile();
    options.backend = "scalar";
    options.threads = 1;
    options.prefix_cache = false;
    const auto engine = load(folder_, options);
    std::vector<GenerationResult> results;
    for (const auto& request : requests())
      results.push_back(engine->generate_and_wait(request).value());
    return results;
  }
  void expect_all(const EngineOptions& options, const std::vector<GenerationResult>& expected,
                  const std::string& what) const {
    const auto engine = load(folder_, options);
    ASSERT_NE(engine, nullptr);
    const auto all = requests();
    for (std::size_t i = 0; i < all.size(); ++i)
      expect_same(engine->generate_and_wait(all[i]).value(), expected[i],
                  what + ", request " + std::to_string(i));
  }
  std::filesystem::path folder_;
};

TEST_P(InvarianceTest, BackendsAndThreadsChangeNoBit) {
  const auto expected = alone();
  for (const auto backend : kernels::supported_backends()) {
    for (const int threads : {1, 2, 3}) {
      EngineOptions options = options_of_profile();
      options.backend = std::string(kernels::name(backend));
      options.threads = threads;
      expect_all(options, expected, options.backend + " with " + std::to_string(threads));
    }
  }
}

TEST_P(InvarianceTest, ChunksOfThePromptChangeNoBit) {
  const auto expected = alone();
  for (const std::size_t chunk : {1u, 2u, 7u, 64u, 255u, 257u, 1000u}) {
    EngineOptions options = options_of_profile();
    options.prefill_chunk = chunk;
    options.batch_rows_max = 300;
    expect_all(options, expected, "chunks of " + std::to_string(chunk));
  }
}

TEST_P(InvarianceTest, ScoringInOnePrefillGivesWhatDecodingGave) {
  const auto expected = alone();
  const auto engine = load(folder_, options_of_profile());
  const auto all = requests();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto scored = engine->score(all[i], ids_of(expected[i])).value();
    expect_same(scored, expected[i], "request " + std::to_string(i));
    for (const auto& token : scored.tokens) {
      EXPECT_TRUE(token.chosen);
      EXPECT_EQ(token.deficit, 0);
    }
  }
}

TEST_P(InvarianceTest, NeighboursThatJoinAndLeaveChangeNoBit) {
  const auto expected = alone();
  EngineOptions options = options_of_profile();
  options.batch_rows_max = 96;
  options.prefill_chunk = 40;
  const auto engine = load(folder_, options);
  const auto all = requests();
  TinyRandom random(11);
  for (const std::size_t neighbours : {1u, 3u, 16u, 40u}) {
    // Neighbours of any length, a third of them cancelled on their way.
    std::list<std::promise<void>> ends;
    std::vector<std::shared_ptr<Generation>> running;
    const auto join = [&](std::size_t count) {
      for (std::size_t n = 0; n < count; ++n) {
        auto& end = ends.emplace_back();
        running.push_back(engine->generate(
            seeded(random_ids(random, 1 + random.below(120), GetParam().model.vocab),
                   static_cast<std::uint32_t>(1 + random.below(20)), random.next()),
            nullptr, [&end](Result<GenerationResult>) { end.set_value(); }));
        if (random.below(3) == 0) running[random.below(running.size())]->cancel();
      }
    };
    std::vector<std::promise<Result<GenerationResult>>> promises(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      join(neighbours / all.size() + 1);
      (void)engine->generate(all[i], nullptr, [&promises, i](auto result) {
        promises[i].set_value(std::move(result));
      });
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto result = promises[i].get_future().get();
      ASSERT_TRUE(result) << result.error().message();
      expect_same(*result, expected[i],
                  std::to_string(neighbours) + " neighbours, request " + std::to_string(i));
    }
    for (auto& end : ends) end.get_future().get();
  }
}

TEST_P(InvarianceTest, AHitInThePrefixCacheChangesNoBit) {
  const auto expected = alone();
  const auto engine = load(folder_, options_of_profile());
  const auto all = requests();
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto result = engine->generate_and_wait(all[i]).value();
      expect_same(result, expected[i], "round " + std::to_string(round));
      const std::size_t whole_blocks = (all[i].prompt_ids.size() - 1) / 256 * 256;
      EXPECT_EQ(result.cached_prompt_tokens, round == 0 ? 0 : whole_blocks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, InvarianceTest,
    testing::Values(Named{"wide", wide()}, Named{"windowed", windowed()},
                    Named{"experts", experts()}, Named{"gemma2", gemma2()},
                    Named{"gemma3", gemma3()}, Named{"phi3", phi3()}, Named{"olmoe", olmoe()},
                    Named{"two_blocks_mma_bf16", stored_as("BF16", two_blocks()), "mma-hopper/1"},
                    Named{"gemma2_mma_bf16", stored_as("BF16", gemma2()), "mma-hopper/1"},
                    Named{"olmoe_mma_f16", stored_as("F16", olmoe()), "mma-hopper/1"}),
    [](const auto& param_info) { return param_info.param.name; });

TEST(PrefixCacheTest, AnotherContinuationOfTheSamePrefixIsNotTakenForIt) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  EngineOptions plain;
  plain.prefix_cache = false;
  const auto cached = load(folder), fresh = load(folder, plain);
  TinyRandom random(3);
  auto prompt = random_ids(random, 700, 96);
  (void)cached->generate_and_wait(greedy(prompt, 4)).value();
  for (const std::size_t changed : {0u, 255u, 256u, 511u, 512u, 699u}) {
    auto other = prompt;
    other[changed] = other[changed] == 3 ? 4 : 3;
    const auto result = cached->generate_and_wait(greedy(other, 4)).value();
    EXPECT_EQ(result.cached_prompt_tokens, std::min<std::size_t>(changed / 256 * 256, 512));
    expect_same(result, fresh->generate_and_wait(greedy(other, 4)).value(),
                "changed at " + std::to_string(changed));
  }
}

}  // namespace
}  // namespace verbatim::local_engine
