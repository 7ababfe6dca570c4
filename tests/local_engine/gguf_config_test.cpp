// What the key-values of a GGUF say of a model, what they leave to its architecture, and what is
// refused.

#include "local_engine/model/config.hpp"
#include "tests/local_engine/model_bytes.hpp"

#include <gtest/gtest.h>

namespace verbatim::local_engine {
namespace {

using Change = std::function<void(test::GgufParts&)>;

Result<ModelConfig> config(const std::string& architecture, std::uint32_t layers,
                           const Change& change = {}, const GgufHints& hints = {}) {
  test::GgufParts parts;
  parts.add_text("general.architecture", architecture);
  for (const auto& [key, value] :
       {std::pair{"context_length", 8192u}, std::pair{"embedding_length", 4608u},
        std::pair{"feed_forward_length", 64u}, std::pair{"block_count", layers},
        std::pair{"attention.head_count", 32u}, std::pair{"attention.head_count_kv", 16u},
        std::pair{"attention.key_length", 128u}, std::pair{"vocab_size", 96u}})
    parts.add_u32(architecture + "." + key, value);
  parts.add_f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  if (change) change(parts);
  const std::string bytes = parts.bytes();
  return config_from_gguf(GgufMetadata::parse(as_bytes(bytes), "model.gguf").value(), hints);
}

TEST(GgufConfigTest, GemmasScoresAreScaledByTheHeadOrInTheLargestModelsByHiddenOverHeads) {
  EXPECT_EQ(config("gemma", 18).value().attention_scalar, 128);
  EXPECT_EQ(config("gemma2", 42).value().attention_scalar, 128);
  EXPECT_EQ(config("gemma2", 46).value().attention_scalar, 144);
  EXPECT_EQ(config("gemma3", 48).value().attention_scalar, 128);
  EXPECT_EQ(config("gemma3", 62).value().attention_scalar, 144);
  EXPECT_EQ(config("llama", 62).value().attention_scalar, 128);
}

TEST(GgufConfigTest, GemmasDefaultsAreThoseOfItsArchitecture) {
  const auto first = config("gemma", 2).value();
  EXPECT_EQ(first.activation, Activation::gelu_tanh);
  EXPECT_FALSE(first.norm_plus_one) << "converters add the 1";
  EXPECT_FALSE(first.post_norms);
  EXPECT_TRUE(first.tied);
  EXPECT_EQ(first.embedding_scale, 67.88225f);

  const auto second = config("gemma2", 3).value();
  EXPECT_TRUE(second.post_norms);
  EXPECT_EQ(second.attention_softcap, 50);
  EXPECT_EQ(second.final_softcap, 30);
  EXPECT_EQ(second.windows, (std::vector<std::size_t>{4096, 0, 4096}));

  const auto third = config("gemma3", 7, [](auto& parts) {
                       parts.add_u32("gemma3.attention.sliding_window", 512);
                     }).value();
  EXPECT_EQ(third.rope.theta, 1e6);
  ASSERT_TRUE(third.local_rope);
  EXPECT_EQ(third.local_rope->theta, 1e4);
  EXPECT_EQ(third.attention_softcap, 0);
  EXPECT_EQ(third.qk_norm, QkNorm::each_head);
  EXPECT_EQ(third.windows, (std::vector<std::size_t>{512, 512, 512, 512, 512, 0, 512}));
}

TEST(GgufConfigTest, RopeKindsAreReadFromTheirKeys) {
  const auto yarn = config("qwen3", 1, [](auto& parts) {
                      parts.add_text("qwen3.rope.scaling.type", "yarn");
                      parts.add_f32("qwen3.rope.scaling.factor", 4);
                      parts.add_u32("qwen3.rope.scaling.original_context_length", 2048);
                    }).value();
  EXPECT_EQ(yarn.rope.kind, RopeKind::yarn);
  EXPECT_EQ(yarn.rope.factor, 4);
  EXPECT_EQ(yarn.rope.original_positions, 2048);
  GgufHints hints;
  hints.rope_factors.assign(64, 2.0f);
  EXPECT_EQ(config("llama", 1, {}, hints).value().rope.kind, RopeKind::factors);
  hints.rope_factors.pop_back();
  EXPECT_EQ(config("llama", 1, {}, hints).error().code, Errc::invalid_input);
}

TEST(GgufConfigTest, WhatIsNotComputedIsRefusedByName) {
  const auto key = [](const std::string& name) {
    return [name](test::GgufParts& parts) { parts.add_f32("phi3." + name, 1.5f); };
  };
  const std::vector<std::pair<Change, std::string>> refused{
      {key("rope.scaling.attn_factor"), "rope.scaling.attn_factor"},
      {key("rope.scaling.yarn_log_multiplier"), "yarn_log_multiplier"},
      {key("attention.clamp_kqv"), "attention.clamp_kqv"},
      {key("attention.scale"), "attention.scale"},
      {[](auto& parts) { parts.add_text("phi3.rope.scaling.type", "longrope"); }, "longrope"},
      {[](auto& parts) { parts.add_u32("phi3.expert_count", 4); }, "phi3 with experts"},
  };
  for (const auto& [change, says] : refused) {
    const auto result = config("phi3", 1, change);
    ASSERT_FALSE(result) << says;
    EXPECT_EQ(result.error().code, Errc::unsupported);
    EXPECT_NE(result.error().what.find(says), std::string::npos) << result.error().what;
    EXPECT_NE(result.error().what.find("is not supported"), std::string::npos);
  }
  EXPECT_EQ(config("gemma3n", 1).error().what, "architecture gemma3n is not supported");
}

}  // namespace
}  // namespace verbatim::local_engine
