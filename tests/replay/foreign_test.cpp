// Answers of another engine that serves the same weights: calibrated, explained, or told apart.

#include "replay/calibration.hpp"
#include "tests/replay/recorded_world.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

namespace verbatim {
namespace {

using gateway::Api;
using replay::Calibration;
using replay::ForeignScore;
using replay::Verdict;
using replay::VerdictKind;
using test::Exchange;

/// Deficits of one honest answer: `flips` near ties of `deficit` among 100 tokens.
ForeignScore honest(float deficit, std::size_t flips) {
  ForeignScore score;
  score.deficits.assign(100, 0);
  std::fill_n(score.deficits.begin(), flips, deficit);
  score.differing = flips;
  return score;
}

TEST(Calibration, TheLimitsAreOrderStatisticsOfHonestRecords) {
  // 1 / 0.05 * 2 - 1 = 39 records: k = ceil(0.975 * 40) = 39, the largest.
  std::vector<ForeignScore> scores;
  for (int i = 1; i <= 39; ++i) scores.push_back(honest(static_cast<float>(i), 1));
  EXPECT_EQ(replay::calibrate(scores, 0.05).value().threshold, 39.0F);
  scores.pop_back();
  EXPECT_EQ(replay::calibrate(scores, 0.05).error().code, Errc::invalid_input);
  // 199 records at 0.05: k = ceil(0.975 * 200) = 195.
  scores.clear();
  for (int i = 199; i >= 1; --i) scores.push_back(honest(static_cast<float>(i), 2));
  const Calibration calibration = replay::calibrate(scores, 0.05).value();
  EXPECT_EQ(calibration.threshold, 195.0F);
  EXPECT_EQ(calibration.share_max, 0.02);
  EXPECT_EQ(calibration.tokens, 19'900U);
  EXPECT_EQ(calibration.differing, 398U);
}

TEST(Calibration, FiguresThatNoAnswersGiveAreRefused) {
  const auto said = [](const std::function<void(Calibration&)>& change) {
    Calibration calibration{"m", "f32-k256/1", std::string(64, 'a'), 199, 12'000, 6, 0.01, 1, 0.2};
    change(calibration);
    const auto read = replay::parse_calibration(replay::calibration_text(calibration));
    return read ? "" : read.error().what;
  };
  const auto refused = [&](const std::function<void(Calibration&)>& change, const char* why) {
    EXPECT_NE(said(change).find(why), std::string::npos) << said(change) << ", not: " << why;
  };
  EXPECT_EQ(said([](Calibration&) {}), "");
  EXPECT_EQ(said([](Calibration& c) { c.threshold = 0, c.share_max = 0, c.differing = 0; }), "");
  refused([](Calibration& c) { c.records = 198; }, "takes 199 records");
  refused([](Calibration& c) { c.alpha = 1e-300, c.records = 1; }, "not 1");
  refused([](Calibration& c) { c.tokens = 0, c.differing = 0; }, "no tokens");
  refused([](Calibration& c) { c.differing = 0; }, "at least 1, not 0");
  refused([](Calibration& c) { c.differing = 0, c.threshold = 0; }, "at least 1, not 0");
  refused([](Calibration& c) { c.share_max = 0; }, "none may differ");
  refused([](Calibration& c) { c.differing = 12'001; }, "more tokens differ");
  // 100 records at 0.5: k = ceil(0.75 * 101) = 76, so 25 reach the limit.
  refused([](Calibration& c) { c.records = 100, c.alpha = 0.5, c.differing = 24; },
          "at least 25, not 24");
  EXPECT_EQ(said([](Calibration& c) { c.records = 100, c.alpha = 0.5, c.differing = 25; }), "");
}

TEST(Calibration, WithoutATokenThereIsNone) {
  EXPECT_FALSE(replay::calibrate(std::vector<ForeignScore>(39), 0.05));
}

TEST(Calibration, BothLimitsMustHold) {
  Calibration calibration;
  calibration.threshold = 0.1F;
  calibration.share_max = 0.05;
  EXPECT_TRUE(replay::within(calibration, 0.1F, 5, 100));
  EXPECT_FALSE(replay::within(calibration, 0.11F, 5, 100));
  EXPECT_FALSE(replay::within(calibration, 0.1F, 6, 100));
}

TEST(Calibration, TokensNeededFollowFromTheShareBeyond) {
  Calibration calibration;
  calibration.threshold = 0.1F;
  calibration.share_max = 1;
  const auto detection = replay::detect(calibration, "q4", {honest(1, 10), honest(0.05F, 10)});
  EXPECT_EQ(detection.tokens, 200U);
  EXPECT_EQ(detection.beyond.count, 10U);
  EXPECT_EQ(detection.records_beyond.count, 1U);
  EXPECT_EQ(detection.tokens_needed, 59U);  // log(0.05) / log(0.95) = 58.4
  EXPECT_EQ(replay::detect(calibration, "same", {honest(0, 0)}).tokens_needed, 0U);
}

TEST(Calibration, ItsTextReadsBackAsItself) {
  Calibration calibration;
  calibration.model = "demo";
  calibration.weights_sha256 = std::string(64, 'a');
  calibration.profile = "f32-k256/1";
  calibration.records = 39;
  calibration.tokens = 2'496;
  calibration.differing = 3;
  calibration.alpha = 0.05;
  calibration.threshold = 0.0031F;
  calibration.share_max = 0.03;
  const std::string text = replay::calibration_text(calibration);
  EXPECT_EQ(replay::calibration_text(replay::parse_calibration(text).value()), text);
  for (const char* bad : {"", "[]", "{}", R"({"v":1,"type":"verbatim_calibration"})",
                          R"({"v":1,"type":"verbatim_calibration","threshold":"-1"})"}) {
    EXPECT_EQ(replay::parse_calibration(bad).error().code, Errc::invalid_input) << bad;
  }
  // A limit that nothing exceeds is none; and what is read can be written again.
  for (const auto& [name, value] : {std::pair<const char*, Json>("threshold", "inf"),
                                    {"threshold", "nan"},
                                    {"share_max", "inf"},
                                    {"false_positive_rate", "nan"},
                                    {"records", (1LL << 53) + 1},
                                    {"tokens", -1},
                                    {"differing", 1.5}}) {
    Json changed = Json::parse(text);
    changed[name] = value;
    EXPECT_EQ(replay::parse_calibration(changed.dump()).error().code, Errc::invalid_input)
        << changed;
  }
}

/// Exchanges that a remote endpoint answered; here they are the demo model's own answers, changed by the test.
class Foreign : public testing::Test {
 protected:
  void SetUp() override { world_.places = {{"demo", test::RecordedWorld::model_path(), true}}; }

  static void make_remote(Exchange& exchange) {
    exchange.upstream = "somewhere";
    exchange.tokens = nullptr;
    exchange.response.erase("engine");
  }
  Verdict verdict_of(const std::function<void(Exchange&)>& forge = {}) {
    return world_.replay(world_.chat("What is a Merkle tree?", [&](Exchange& exchange) {
      make_remote(exchange);
      if (forge) forge(exchange);
    }));
  }
  void calibrate(float threshold, double share_max) {
    Calibration calibration;
    calibration.model = "demo";
    calibration.profile = world_.engine()->profile();
    calibration.weights_sha256 = world_.engine()->fingerprint().weights_sha256.hex();
    calibration.threshold = threshold;
    calibration.share_max = share_max;
    world_.calibration = calibration;
  }
  static void replace(std::string& where, const std::string& what, const std::string& with) {
    const std::size_t at = where.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    where.replace(at, what.size(), with);
  }

  test::RecordedWorld world_{test::fresh_dir()};
};

TEST_F(Foreign, AnHonestAnswerIsTokenExactAndItsWeightsAreClaimed) {
  const Verdict verdict = verdict_of();
  EXPECT_EQ(verdict.kind, VerdictKind::token_exact) << verdict.detail;
  EXPECT_TRUE(verdict.claimed_weights);
  EXPECT_GT(verdict.tokens, 10U);
  EXPECT_EQ(replay::verdict_fields(verdict)["weights"], "claimed");
}

TEST_F(Foreign, HonestAnswersOfEveryApiAreTokenExact) {
  const std::pair<Api, const char*> requests[] = {
      {Api::openai_completions,
       R"({"model":"demo","prompt":"The log","temperature":0,"max_tokens":40})"},
      {Api::openai_completions,
       R"({"model":"demo","prompt":["A Merkle","Who"],"temperature":0,"max_tokens":20})"},
      {Api::openai_chat,
       R"({"model":"demo","messages":[{"role":"user","content":"Who are you?"}],"temperature":0,"max_tokens":9})"},
      {Api::anthropic_messages,
       R"({"model":"demo","messages":[{"role":"user","content":"Hello"}],"temperature":0,"max_tokens":30})"},
  };
  for (const auto& [api, body] : requests) {
    Exchange exchange = world_.answer(api, body);
    make_remote(exchange);
    const Verdict verdict = world_.replay(world_.record(api, exchange));
    EXPECT_EQ(verdict.kind, VerdictKind::token_exact)
        << body << ": " << verdict.reason << " " << verdict.detail;
  }
}

TEST_F(Foreign, WithoutTheOperatorsWordItIsRemote) {
  world_.places = {{"demo", test::RecordedWorld::model_path(), false}};
  EXPECT_EQ(verdict_of().reason, "remote");
  world_.places = {{"other", test::RecordedWorld::model_path(), true}};
  EXPECT_EQ(verdict_of().reason, "remote");
}

TEST_F(Foreign, AnEditedWordIsDivergedWhereItStands) {
  const auto edit = [](Exchange& exchange) {
    replace(exchange.response_body, "tree of hashes", "list of hashes");
  };
  for (const bool calibrated : {false, true}) {
    if (calibrated) calibrate(0.5F, 0.1);
    const Verdict verdict = verdict_of(edit);
    EXPECT_EQ(verdict.kind, VerdictKind::diverged);
    EXPECT_EQ(verdict.reason, "token");
    // A token may hold the blank before its word.
    const std::size_t word = std::string("A Merkle tree is a ").size();
    EXPECT_TRUE(verdict.character == word || verdict.character == word - 1) << *verdict.character;
    EXPECT_GT(*verdict.deficit, calibrated ? 0.5F : 0.0F);
    EXPECT_NE(std::find(verdict.hypotheses.begin(), verdict.hypotheses.end(), "edited"),
              verdict.hypotheses.end());
    EXPECT_EQ(replay::verdict_fields(verdict)["hypotheses"], verdict.hypotheses);
    EXPECT_EQ(std::count(verdict.hypotheses.begin(), verdict.hypotheses.end(), "rounding"), 0);
  }
}

TEST_F(Foreign, AnEditLateInAnAnswerIsNotTakenForOtherWeights) {
  calibrate(0.5F, 0.1);
  const Verdict verdict = verdict_of([](Exchange& exchange) {
    const std::size_t end = exchange.response_body.rfind(". ");
    ASSERT_NE(end, std::string::npos) << exchange.response_body;
    replace(exchange.response_body, exchange.response_body.substr(end, 6), ". Zzz zq");
  });
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
  EXPECT_EQ(verdict.hypotheses.front(), "edited") << verdict.detail;
  // What was learnt by heart stays the same under other weights for a while: they are never excluded.
  EXPECT_EQ(std::count(verdict.hypotheses.begin(), verdict.hypotheses.end(), "weights"), 1);
}

TEST_F(Foreign, AnotherQuestionIsAmongTheHypotheses) {
  calibrate(0.001F, 0.01);
  const Verdict verdict =
      verdict_of([](Exchange& e) { replace(e.request_body, "a Merkle tree", "an auditor"); });
  EXPECT_EQ(verdict.hypotheses, (std::vector<std::string>{"prompt", "edited", "weights"}))
      << verdict.detail;
}

TEST_F(Foreign, AnAnswerThatIsCutShortIsSaidToBe) {
  calibrate(0.001F, 0.01);
  // It says that it ended by itself, where the model would have gone on.
  const auto cut = [](Exchange& e) {
    const std::size_t from = e.response_body.find(" tree of hashes") + 15;
    const std::size_t to = e.response_body.find('"', from);
    e.response_body.erase(from, to - from);
  };
  const Verdict ended = verdict_of(cut);
  EXPECT_EQ(ended.kind, VerdictKind::diverged);
  EXPECT_EQ(ended.hypotheses, (std::vector<std::string>{"truncated", "weights"})) << ended.detail;
  // It says that its limit ended it, which is far off: true tokens all the same.
  const Verdict limited = verdict_of([&](Exchange& e) {
    cut(e);
    replace(e.response_body, "\"finish_reason\":\"stop\"", "\"finish_reason\":\"length\"");
  });
  EXPECT_EQ(limited.kind, VerdictKind::token_exact) << limited.detail;
  EXPECT_EQ(limited.hypotheses, std::vector<std::string>{"truncated"});
  EXPECT_NE(limited.detail.find("cut short"), std::string::npos);
  EXPECT_TRUE(verdict_of().hypotheses.empty());
}

TEST_F(Foreign, AParameterThatNobodyHereKnowsIsNoReasonToAccuse) {
  for (const char* member : {"\"dry_multiplier\":0.8", "\"mirostat\":2", "\"lora\":[{\"id\":0}]",
                             "\"repeat_penalty\":1.1", "\"reasoning_effort\":\"high\""}) {
    const Verdict verdict = verdict_of([&](Exchange& e) {
      replace(e.request_body, "\"temperature\":0", "\"temperature\":0," + std::string(member));
    });
    EXPECT_EQ(verdict.reason, "parameters") << member;
  }
  const Verdict harmless = verdict_of([](Exchange& e) {
    replace(e.request_body, "\"temperature\":0",
            "\"temperature\":0,\"user\":\"u\",\"dry_multiplier\":null");
  });
  EXPECT_EQ(harmless.kind, VerdictKind::token_exact) << harmless.detail;
}

TEST_F(Foreign, WhatAServerTakesFromTheModelsFolderIsFoundAndSaid) {
  // The folder suggests a penalty, and the server took it, as some do, though the request does not ask for it.
  const auto folder = test::fresh_dir("-penalised");
  std::filesystem::copy(test::RecordedWorld::model_path(), folder);
  std::ofstream(folder / "generation_config.json")
      << R"({"eos_token_id":[2],"repetition_penalty":1.8})";
  const std::string plain =
      R"({"model":"demo","messages":[{"role":"user","content":"Tell me a story."}],"temperature":0,"max_tokens":48})";
  std::string penalised = plain;
  replace(penalised, "\"temperature\":0", "\"temperature\":0,\"repetition_penalty\":1.8");
  Exchange exchange = world_.answer(Api::openai_chat, penalised);
  Exchange unpenalised = world_.answer(Api::openai_chat, plain);
  ASSERT_NE(exchange.response_body, unpenalised.response_body);
  for (Exchange* each : {&exchange, &unpenalised}) {
    make_remote(*each);
    each->request_body = plain;
  }
  world_.places = {{"demo", folder, true}};
  const Verdict taken = world_.replay(world_.record(Api::openai_chat, exchange));
  EXPECT_EQ(taken.kind, VerdictKind::token_exact) << taken.detail;
  EXPECT_EQ(taken.defaults, "repetition_penalty 1.8, of the model's generation_config.json");
  EXPECT_EQ(replay::verdict_fields(taken)["defaults"], taken.defaults);
  const Verdict left = world_.replay(world_.record(Api::openai_chat, unpenalised));
  EXPECT_EQ(left.kind, VerdictKind::token_exact) << left.detail;
  EXPECT_EQ(left.defaults, "");
  world_.places = {{"demo", test::RecordedWorld::model_path(), true}};
  EXPECT_EQ(world_.replay(world_.record(Api::openai_chat, exchange)).kind, VerdictKind::diverged);
}

TEST_F(Foreign, ThePenaltyThatOllamaSetsUnaskedIsFoundAndSaid) {
  const auto engine = test::RecordedWorld::engine();
  const auto answer = [&](const char* prompt, double penalty, std::uint32_t window) {
    local_engine::GenerationRequest request;
    request.prompt_ids = engine->tokenizer()->encode(prompt, {}).value();
    request.tokens_max = 150;
    request.ignore_eos = true;
    // The text does not tell where special tokens were.
    request.sampling.logit_bias = {{0, -100}, {1, -100}, {2, -100}};
    request.sampling.repetition_penalty = penalty;
    request.sampling.penalty_window = window;
    return engine->generate_and_wait(request).value().text;
  };
  world_.places = {{"demo", test::RecordedWorld::model_path(), true}};
  std::size_t changed = 0;
  // Prompts whose answers are cut into tokens as their text would be.
  for (const char* prompt : {"Hello", "Once", "the the the"}) {
    const std::string penalised = answer(prompt, 1.1, 64);
    ASSERT_NE(penalised, answer(prompt, 1, 0));
    changed += penalised == answer(prompt, 1.1, 0) ? 0 : 1;
    const std::string plain =
        Json{{"model", "demo"},    {"prompt", prompt},
             {"temperature", 0},   {"max_tokens", 150},
             {"ignore_eos", true}, {"logit_bias", {{"0", -100}, {"1", -100}, {"2", -100}}}}
            .dump();
    Exchange exchange = world_.answer(Api::openai_completions, plain);
    make_remote(exchange);
    exchange.response_body =
        Json{{"object", "text_completion"},
             {"choices", {{{"index", 0}, {"text", penalised}, {"finish_reason", "length"}}}}}
            .dump();
    const Verdict verdict = world_.replay(world_.record(Api::openai_completions, exchange));
    EXPECT_EQ(verdict.kind, VerdictKind::token_exact) << prompt << ": " << verdict.detail;
    EXPECT_EQ(verdict.defaults, "repeat_penalty 1.1 over the last 64 tokens, Ollama's default");
    replace(exchange.request_body, "\"temperature\":0",
            "\"temperature\":0,\"repetition_penalty\":1");
    EXPECT_EQ(world_.replay(world_.record(Api::openai_completions, exchange)).reason,
              "tokenization");
  }
  EXPECT_GT(changed, 0u) << "no answer shows the window";
}

TEST_F(Foreign, AnEditedQuestionIsDiverged) {
  calibrate(0.5F, 0.1);
  const Verdict verdict =
      verdict_of([](Exchange& e) { replace(e.request_body, "a Merkle tree", "an auditor"); });
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
}

TEST_F(Foreign, ACacheHitIsJudgedByWhatItSentItself) {
  const Uuid origin = world_.chat("What is a Merkle tree?", make_remote);
  const auto hit = [&](Exchange& exchange) {
    make_remote(exchange);
    exchange.response = {{"status", "cache_hit"}, {"cache", "hit"}, {"origin", origin.str()}};
  };
  EXPECT_EQ(world_.replay(world_.chat("What is a Merkle tree?", hit)).kind,
            VerdictKind::token_exact);
  const Verdict edited = world_.replay(world_.chat("What is a Merkle tree?", [&](Exchange& e) {
    hit(e);
    replace(e.response_body, "tree of hashes", "list of hashes");
  }));
  EXPECT_EQ(edited.kind, VerdictKind::diverged);
  EXPECT_EQ(edited.origin, origin);
}

TEST_F(Foreign, WhatAStopOrALimitCutWithinATokenIsNoReasonToAccuse) {
  // "A Merkle tree is a tree of hashes": each of these ends somewhere within a token.
  for (const char* stop : {"erkl", "kle t", "f ha", "ash", "ree of", "e"}) {
    Exchange exchange = world_.answer(
        Api::openai_chat,
        Json{{"model", "demo"},
             {"temperature", 0},
             {"stop", stop},
             {"messages", Json::array({{{"role", "user"}, {"content", "What is a Merkle tree?"}}})}}
            .dump());
    make_remote(exchange);
    const Verdict verdict = world_.replay(world_.record(Api::openai_chat, exchange));
    EXPECT_EQ(verdict.kind, VerdictKind::token_exact) << stop << ": " << verdict.detail;
  }
  const Verdict cut = verdict_of([](Exchange& e) {
    const std::size_t from = e.response_body.find(" of hashes");
    ASSERT_NE(from, std::string::npos);
    e.response_body.replace(from, e.response_body.find('"', from) - from, "\xEF\xBF\xBD");
    replace(e.response_body, "\"finish_reason\":\"stop\"", "\"finish_reason\":\"length\"");
  });
  // The engine goes on with whole characters there: what U+FFFD stands for is not known.
  EXPECT_EQ(cut.reason, "tokenization") << cut.detail;
}

TEST_F(Foreign, AnEndThatNothingGaveIsNoneWhateverTheAnswerSaysOfIt) {
  // A chat about Merkle trees, with a stop sequence or a limit, and the answer that somebody says it got.
  const auto verdict = [&](const Json& more, const std::string& text, const std::string& finish) {
    Json asked = {
        {"model", "demo"},
        {"temperature", 0},
        {"messages", Json::array({{{"role", "user"}, {"content", "What is a Merkle tree?"}}})}};
    asked.update(more);
    Exchange exchange = world_.answer(Api::openai_chat, asked.dump());
    Json body = Json::parse(exchange.response_body);
    body["choices"][0]["message"]["content"] = text;
    body["choices"][0]["finish_reason"] = finish;
    exchange.response_body = body.dump();
    make_remote(exchange);
    return world_.replay(world_.record(Api::openai_chat, exchange));
  };
  const Json stop = Json::object({{"stop", "ZZZ"}});
  EXPECT_EQ(verdict(stop, "A Merkle tree is a tree", "stop").kind, VerdictKind::diverged);
  EXPECT_EQ(verdict(stop, "A Merkle tree is not", "stop").kind, VerdictKind::diverged);
  EXPECT_EQ(verdict(stop, "A", "stop").kind, VerdictKind::diverged);
  EXPECT_EQ(verdict(Json::object({{"stop", " of"}}), "A Merkle tree is a tree", "stop").kind,
            VerdictKind::token_exact);
  EXPECT_EQ(verdict(Json::object({{"stop", "tree"}}), "A Merkle tree is a tree", "stop").reason,
            "parameters");

  const Json limit = Json::object({{"max_tokens", 5}});
  const Verdict longer = verdict(limit, "A Merkle tree is a tree of hashes: each leaf", "length");
  EXPECT_EQ(longer.kind, VerdictKind::diverged);
  EXPECT_EQ(longer.reason, "length");
  const std::string lost = "\xEF\xBF\xBD";
  EXPECT_EQ(verdict(limit, "A Merkle tree is not" + lost, "length").reason, "tokenization");
  EXPECT_EQ(verdict(Json::object(), "A Merkle " + lost + " tree", "stop").reason, "tokenization");

  for (const char* finish : {"", "content_filter", "tool_calls", "STOP"}) {
    const Verdict cut = verdict(Json::object(), "A Merkle tree is a tree", finish);
    ASSERT_EQ(cut.kind, VerdictKind::token_exact) << finish;
    EXPECT_EQ(cut.hypotheses, std::vector<std::string>{"truncated"}) << finish;
  }
}

TEST_F(Foreign, TheFirstSpaceThatAServerTakesAwayIsNoReasonToAccuse) {
  Exchange exchange =
      world_.answer(Api::openai_completions,
                    R"({"model":"demo","prompt":"A Merkle tree","temperature":0,"max_tokens":20})");
  make_remote(exchange);
  replace(exchange.response_body, "\"text\":\" ", "\"text\":\"");
  const Verdict verdict = world_.replay(world_.record(Api::openai_completions, exchange));
  EXPECT_EQ(verdict.kind, VerdictKind::token_exact) << verdict.detail;
}

TEST_F(Foreign, WhatIsSaidBesideTheTextIsNotJudged) {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"tool_calls", Json::array({{{"id", "1"}}})},
           {"refusal", "I refuse."},
           {"reasoning_content", "Let me see."}}) {
    const Verdict verdict = verdict_of([&, member = name, said = value](Exchange& e) {
      Json body = Json::parse(e.response_body);
      body["choices"][0]["message"][member] = said;
      e.response_body = body.dump();
    });
    EXPECT_EQ(verdict.kind, VerdictKind::not_replayable) << name;
    EXPECT_EQ(verdict.reason, "tokenization") << name << ": " << verdict.detail;
  }
  const Verdict parts = verdict_of([](Exchange& e) {
    Json body = Json::parse(e.response_body);
    Json& message = body["choices"][0]["message"];
    message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
    e.response_body = body.dump();
  });
  EXPECT_EQ(parts.kind, VerdictKind::token_exact) << parts.detail;
}

TEST_F(Foreign, SpecialTokensThatATextDoesNotShowAreFound) {
  Exchange exchange = world_.answer(
      Api::openai_completions,
      R"({"model":"demo","prompt":"The log","temperature":0,"max_tokens":50,"ignore_eos":true})");
  make_remote(exchange);
  const Verdict honest = world_.replay(world_.record(Api::openai_completions, exchange));
  EXPECT_EQ(honest.kind, VerdictKind::token_exact) << honest.detail;
  const std::size_t at = exchange.response_body.find("log");
  ASSERT_NE(at, std::string::npos);
  exchange.response_body.replace(at, 3, "cat");
  EXPECT_EQ(world_.replay(world_.record(Api::openai_completions, exchange)).reason, "tokenization");
}

TEST_F(Foreign, ACalibrationForOtherWeightsIsSaidToBeOne) {
  calibrate(1000, 1);
  world_.calibration->weights_sha256 = std::string(64, 'a');
  const Verdict verdict =
      verdict_of([](Exchange& e) { replace(e.response_body, "tree of hashes", "list of hashes"); });
  EXPECT_NE(verdict.detail.find("other weights (aaaaaaaaaaaaaaaa"), std::string::npos)
      << verdict.detail;
}

TEST_F(Foreign, ASampledAnswerCannotBeComputedAgain) {
  EXPECT_EQ(verdict_of([](Exchange& e) {
              replace(e.request_body, "\"temperature\":0", "\"temperature\":1");
            }).reason,
            "unseeded");
}

TEST_F(Foreign, OnlyACalibrationOfTheseWeightsExplains) {
  const auto edit = [](Exchange& exchange) {
    replace(exchange.response_body, "tree of hashes", "list of hashes");
  };
  calibrate(1000, 1);
  EXPECT_EQ(verdict_of(edit).kind, VerdictKind::within_margin);
  world_.calibration->weights_sha256 = std::string(64, 'b');
  const Verdict verdict = verdict_of(edit);
  EXPECT_EQ(verdict.kind, VerdictKind::diverged);
  EXPECT_FALSE(verdict.tolerance);
}

TEST_F(Foreign, AVerdictWithinMarginNamesItsCalibration) {
  calibrate(1000, 1);
  const Verdict verdict =
      verdict_of([](Exchange& e) { replace(e.response_body, "tree of hashes", "list of hashes"); });
  ASSERT_TRUE(verdict.tolerance);
  EXPECT_EQ(verdict.tolerance->calibration_sha256,
            sha256(replay::calibration_text(*world_.calibration)).hex());
  EXPECT_EQ(verdict.tolerance->threshold, "1000");
  EXPECT_EQ(replay::verdict_fields(verdict)["calibration"]["false_positive_rate"], "0.01");
}

TEST_F(Foreign, WhatCannotBeScoredSaysWhy) {
  EXPECT_EQ(verdict_of([](Exchange& e) {
              replace(e.request_body, "\"temperature\":0", "\"temperature\":0,\"tools\":[1]");
            }).reason,
            "parameters");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response_body = "<html>"; }).reason, "no_output");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response_body = R"({"choices":3})"; }).reason,
            "no_output");
  EXPECT_EQ(verdict_of([](Exchange& e) { e.response_body = R"({"choices":[1,2]})"; }).reason,
            "malformed_record");
  EXPECT_EQ(verdict_of([](Exchange& e) {
              e.response_body =
                  R"({"choices":[{"message":{"content":""},"finish_reason":"length"}]})";
            }).reason,
            "no_output");
}

}  // namespace
}  // namespace verbatim
