// A divergence is taken back to its layer and operator; fingerprints of activations are checked.

#include "kernels/backend.hpp"
#include "tests/replay/recorded_world.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace verbatim {
namespace {

using replay::Verdict;
using replay::VerdictKind;
using test::Exchange;

/// A copy of the demo model of which one tensor has one bit of each mantissa flipped.
std::filesystem::path spoiled(const std::filesystem::path& folder, const std::string& tensor) {
  const auto to = folder / ("spoiled-" + tensor);
  std::filesystem::copy(test::RecordedWorld::model_path(), to,
                        std::filesystem::copy_options::recursive);
  const auto file = to / "model.safetensors";
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::size_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<std::uint8_t>(bytes[i]);
  const Json about = Json::parse(bytes.substr(8, header)).at(tensor);
  EXPECT_EQ(about["dtype"], "BF16");
  for (std::size_t at = about["data_offsets"][0]; at < about["data_offsets"][1]; at += 2)
    bytes[8 + header + at] = static_cast<char>(bytes[8 + header + at] ^ 0x20);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  return to;
}

std::shared_ptr<local_engine::Engine> load(const std::filesystem::path& path) {
  local_engine::EngineOptions options;
  options.threads = 1;
  return local_engine::Engine::load(path, options).value();
}

class Explain : public testing::Test {
 protected:
  const std::filesystem::path folder_ = test::fresh_dir();
  test::RecordedWorld world_{folder_ / "data"};
};

TEST_F(Explain, ARecordThatKeepsDigestsNamesTheLayerThatTheRecorderComputedWrongly) {
  world_.layer_digest_bytes = 1 << 16;
  world_.explain = true;
  struct Case {
    const char *tensor, *op;
    std::size_t layer;
  };
  for (const Case& each :
       {Case{"model.layers.2.mlp.up_proj.weight", "feed_forward_residual", 2},
        Case{"model.layers.1.self_attn.k_proj.weight", "attention_residual", 1},
        Case{"model.layers.3.self_attn.o_proj.weight", "attention_residual", 3}}) {
    world_.recorder = load(spoiled(folder_, each.tensor));
    const Verdict verdict = world_.replay(world_.chat(std::string("What is ") + each.tensor));
    EXPECT_EQ(verdict.kind, VerdictKind::diverged);
    ASSERT_EQ(verdict.explanations.size(), 1u);
    const Json& found = verdict.explanations[0];
    EXPECT_EQ(found["against"], "record");
    EXPECT_EQ(found["same"], false);
    EXPECT_EQ(found["first"]["layer"], each.layer) << found;
    EXPECT_EQ(found["first"]["operator"], each.op) << found;
    EXPECT_EQ(found["causes"].size(), 1u);
    // One key has no choice of weights: position 0 sees nothing of q and k.
    const bool keys = std::string(each.tensor).find("k_proj") != std::string::npos;
    EXPECT_EQ(found["first"]["position"], keys ? 1 : 0);
  }
}

TEST_F(Explain, ABoundOnTheBytesMakesThePositionCoarserAndTheLayerNot) {
  world_.layer_digest_bytes = 11 * 8 * 5;
  world_.explain = true;
  world_.recorder = load(spoiled(folder_, "model.layers.1.mlp.gate_proj.weight"));
  const Uuid id = world_.chat("Tell me a story of a log.");
  const Verdict verdict = world_.replay(id);
  const Json& found = verdict.explanations.at(0);
  EXPECT_EQ(found["first"]["layer"], 1);
  EXPECT_EQ(found["first"]["operator"], "feed_forward_residual");
  EXPECT_GT(found["first"]["last_position"], found["first"]["position"]);
  world_.layer_digest_bytes = 16;  // not even one for each stage
  const Verdict none = world_.replay(world_.chat("Tell me another story."));
  EXPECT_EQ(none.kind, VerdictKind::diverged);
  EXPECT_EQ(none.explanations.at(0)["problem"],
            "it keeps no digests of its layers; name another engine with --against");
}

TEST_F(Explain, WeightsThatChangedAreJudgedByNobodyButTheirFirstOtherLayerIsNamed) {
  world_.layer_digest_bytes = 1 << 16;
  world_.activation_fingerprints = true;
  world_.explain = true;
  const Uuid id = world_.chat("What is a Merkle tree?");
  EXPECT_EQ(world_.replay(id).kind, VerdictKind::bitwise);
  const Json same = world_.replay(id).explanations.at(0);
  EXPECT_EQ(same["same"], true) << same;
  world_.places = {{"demo", spoiled(folder_, "model.layers.2.self_attn.v_proj.weight")}};
  const Verdict verdict = world_.replay(id);
  EXPECT_EQ(verdict.kind, VerdictKind::not_replayable);
  EXPECT_EQ(verdict.reason, "weights_differ");
  ASSERT_EQ(verdict.explanations.size(), 1u);
  EXPECT_EQ(verdict.explanations[0]["first"]["layer"], 2);
  EXPECT_EQ(verdict.explanations[0]["first"]["operator"], "attention_residual");
  ASSERT_TRUE(verdict.fingerprint);
  EXPECT_EQ(verdict.fingerprint->exact, 0u);
  EXPECT_GT(verdict.fingerprint->chunks, 0u);
  world_.layer_digest_bytes = 0;
  const Verdict none = world_.replay(world_.chat("What is a receipt?"));
  EXPECT_EQ(none.reason, "weights_differ");
  EXPECT_EQ(none.explanations.at(0)["problem"],
            "it keeps no digests of its layers; name another engine with --against");
}

TEST_F(Explain, AnotherModelIsComparedOperatorByOperator) {
  const Uuid id = world_.chat("What is a Merkle tree?");
  for (const auto& [part, op] :
       {std::pair("self_attn.q_proj", "q"), std::pair("self_attn.v_proj", "v"),
        std::pair("self_attn.o_proj", "attention_output"), std::pair("mlp.gate_proj", "gate"),
        std::pair("mlp.down_proj", "down"), std::pair("input_layernorm", "attention_norm"),
        std::pair("post_attention_layernorm", "feed_forward_norm")}) {
    const std::string tensor = std::string("model.layers.1.") + part + ".weight";
    world_.against = replay::Counterpart{spoiled(folder_, tensor), ""};
    const Verdict verdict = world_.replay(id);
    EXPECT_EQ(verdict.kind, VerdictKind::bitwise);  // of its own weights
    const Json& found = verdict.explanations.at(0);
    EXPECT_EQ(found["first"]["layer"], 1) << found;
    EXPECT_EQ(found["first"]["operator"], op) << found;
    EXPECT_EQ(found["causes"].size(), 1u);
    EXPECT_NE(replay::explanation_text(found).find(std::string("layer 1, ") + op),
              std::string::npos);
  }
}

TEST_F(Explain, OtherBackendsShowNoDifference) {
  const Uuid id = world_.chat("What is a Merkle tree?");
  for (const auto backend : kernels::supported_backends()) {
    world_.against = replay::Counterpart{"", std::string(kernels::name(backend))};
    const Json found = world_.replay(id).explanations.at(0);
    EXPECT_EQ(found["same"], true) << found;
    EXPECT_GT(found["positions"], 10);
    EXPECT_EQ(found["stages"], 3 + 4 * 15);
    EXPECT_NE(replay::explanation_text(found).find("no difference"), std::string::npos);
  }
}

TEST_F(Explain, WhatCannotBeComparedSaysWhy) {
  const Uuid id = world_.chat("What is a Merkle tree?", [](Exchange& exchange) {
    exchange.layers = R"({"v":1,"choices":[{"detail":"residual"}]})";
    exchange.tokens["choices"][0]["logits_digest"] = std::string(64, '0');
  });
  world_.explain = true;
  const Verdict verdict = world_.replay(id);
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
  EXPECT_EQ(verdict.explanations.at(0)["problem"], "no proper positions or block");
  world_.against = replay::Counterpart{folder_ / "nothing", ""};
  const Verdict other = world_.replay(id);
  ASSERT_EQ(other.explanations.size(), 2u);
  EXPECT_FALSE(other.explanations[1]["problem"].get<std::string>().empty());
}

TEST_F(Explain, LayersThatContradictAnAnswerThatAgreesWereDamagedOrEdited) {
  world_.layer_digest_bytes = 1 << 16;
  const auto edit = [](Exchange& exchange) {
    Json layers = Json::parse(exchange.layers);
    auto& digests = layers["choices"][0]["stages"][2]["digests"].get_ref<std::string&>();
    digests[0] = digests[0] == '0' ? '1' : '0';
    exchange.layers = layers.dump();
  };
  const Uuid id = world_.chat("What is a Merkle tree?", edit);
  EXPECT_TRUE(world_.replay(id).explanations.empty());
  world_.explain = true;
  const Verdict verdict = world_.replay(id);
  EXPECT_EQ(verdict.kind, VerdictKind::bitwise);
  const std::string said = replay::explanation_text(verdict.explanations.at(0));
  EXPECT_NE(said.find("damaged or edited"), std::string::npos) << said;
  // Of one that diverged they say where, and accuse nobody of an edit.
  const Uuid other = world_.chat("What is a Merkle tree?", [&](Exchange& exchange) {
    edit(exchange);
    exchange.tokens["choices"][0]["logits_digest"] = std::string(64, '0');
  });
  const std::string where = replay::explanation_text(world_.replay(other).explanations.at(0));
  EXPECT_EQ(where.find("damaged or edited"), std::string::npos) << where;
}

TEST_F(Explain, IsReadBackFromTheVerdictsLeaf) {
  world_.layer_digest_bytes = 1 << 16;
  world_.activation_fingerprints = true;
  world_.explain = true;
  world_.recorder = load(spoiled(folder_, "model.layers.0.mlp.up_proj.weight"));
  const Verdict verdict = world_.replay(world_.chat("Who are you?"));
  const Json fields = replay::verdict_fields(verdict);
  const Verdict again = replay::verdict_of_leaf(Json::parse(fields.dump())).value();
  EXPECT_EQ(again.explanations, verdict.explanations);
  ASSERT_TRUE(again.fingerprint);
  EXPECT_EQ(replay::fingerprint_json(*again.fingerprint),
            replay::fingerprint_json(*verdict.fingerprint));
  for (const Json& strange : {Json("text"), Json::array({1, Json::array()}), Json::object()}) {
    Json other = fields;
    other["explanations"] = strange;
    other["fingerprint"] = strange;
    EXPECT_TRUE(replay::verdict_of_leaf(other));
    (void)replay::explanation_text(strange);
  }
}

TEST_F(Explain, AFingerprintIsCheckedExactly) {
  world_.activation_fingerprints = true;
  const Uuid honest = world_.chat("Tell me a story.");
  const Verdict same = world_.replay(honest);
  EXPECT_EQ(same.kind, VerdictKind::bitwise);
  ASSERT_TRUE(same.fingerprint);
  EXPECT_EQ(same.fingerprint->exact, same.fingerprint->chunks);
  EXPECT_EQ(same.fingerprint->exponent_mismatches, 0u);
  EXPECT_EQ(world_.replay(honest, replay::Method::decode).fingerprint->exact,
            same.fingerprint->chunks);

  const auto other = world_.chat("Tell me a story.", [](Exchange& exchange) {
    exchange.fingerprint[100] = static_cast<char>(exchange.fingerprint[100] ^ 1);
  });
  const Verdict verdict = world_.replay(other);
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
  EXPECT_EQ(verdict.reason, "fingerprint");
}

TEST_F(Explain, AFingerprintThatTheLeafNamesAndNobodyHasIsSaidNotToHaveBeenLookedAt) {
  world_.activation_fingerprints = true;
  EXPECT_TRUE(world_.replay(world_.chat("Tell me a story.")).not_looked_at.empty());
  const Verdict verdict = world_.replay(world_.chat("Tell me a story.", [](Exchange& exchange) {
    exchange.fingerprint.clear();
    exchange.response["engine"]["fingerprint"] = {{"hidden", 64}};
  }));
  EXPECT_EQ(verdict.kind, VerdictKind::bitwise);
  EXPECT_EQ(verdict.not_looked_at, std::vector<std::string>{"response.fingerprint"});
}

TEST_F(Explain, AFingerprintSpeaksForARecordWithoutADigestOfItsLogits) {
  world_.activation_fingerprints = true;
  const auto without_digests = [](Exchange& exchange) {
    for (Json& choice : exchange.tokens["choices"]) {
      choice.erase("logits_digest");
      choice["row_digest8"] = Json::array();
    }
  };
  const Verdict honest = world_.replay(world_.chat("Tell me a story.", without_digests));
  EXPECT_EQ(honest.kind, VerdictKind::token_exact);
  EXPECT_EQ(honest.fingerprint->exact, honest.fingerprint->chunks);
}

TEST_F(Explain, FingerprintsOfSeveralChoicesFollowEachOther) {
  world_.activation_fingerprints = true;
  world_.layer_digest_bytes = 1 << 16;
  world_.explain = true;
  const auto api = gateway::Api::openai_chat;
  const std::string body =
      R"({"model":"demo","messages":[{"role":"user","content":"Tell me a story."}],"temperature":0.9,"seed":3,"n":3,"max_tokens":40})";
  Exchange exchange = world_.answer(api, body);
  const Verdict verdict = world_.replay(world_.record(api, exchange));
  EXPECT_EQ(verdict.kind, VerdictKind::bitwise);
  EXPECT_EQ(verdict.fingerprint->exact, verdict.fingerprint->chunks);
  EXPECT_EQ(exchange.fingerprint.size(), 258 * verdict.fingerprint->chunks);
}

TEST_F(Explain, AMalformedFingerprintIsAReasonAndStopsNothing) {
  world_.activation_fingerprints = true;
  const auto forge = [](const std::string& bytes) {
    return [bytes](Exchange& exchange) {
      exchange.fingerprint = bytes.empty() ? exchange.fingerprint + "xx" : bytes;
    };
  };
  for (const std::string& bytes : {std::string("x"), std::string(), std::string(258, '\xff')}) {
    const Verdict verdict = world_.replay(world_.chat("Who are you?", forge(bytes)));
    EXPECT_EQ(verdict.kind, VerdictKind::not_replayable);
    EXPECT_EQ(verdict.reason, "malformed_record") << verdict.detail;
  }
}

}  // namespace
}  // namespace verbatim
