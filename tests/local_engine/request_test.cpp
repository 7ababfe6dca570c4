// What a request may ask, how it ends, and what it never does to others.

#include "local_engine/output_text.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

/// A model with a tokenizer: id n is the character '!' + n - 3.
std::filesystem::path write_talking(const TinyModel& model) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, model);
  test::write_bytes(folder / "tokenizer.json", test::tiny_tokenizer(model.vocab));
  return folder;
}

/// The same, but as SentencePiece has it: each token begins with a space, which the decoder takes from the front of a text.
std::filesystem::path write_spaced(const TinyModel& model) {
  const auto folder = write_talking(model);
  Json tokenizer = Json::parse(test::tiny_tokenizer(model.vocab));
  Json vocab;
  for (const auto& [name, id] : tokenizer["model"]["vocab"].items()) {
    vocab[id < 3 ? name : "\u2581" + name] = id;
  }
  tokenizer["model"]["vocab"] = vocab;
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  test::write_bytes(folder / "tokenizer.json", tokenizer.dump());
  return folder;
}

Errc code_of(const Result<GenerationResult>& result) {
  EXPECT_FALSE(result);
  return result ? Errc{} : result.error().code;
}

class RequestTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = write_talking(TinyModel{});
    engine_ = load(folder_);
    ASSERT_NE(engine_, nullptr);
  }
  std::filesystem::path folder_;
  std::shared_ptr<Engine> engine_;
};

TEST(Continuations, KeepTheFirstSpaceOfWhatGoesOnWithAText) {
  const auto folder = write_spaced(TinyModel{});
  const auto engine = load(folder);
  ASSERT_NE(engine, nullptr);
  auto request = greedy({5, 6, 7}, 6);
  const GenerationResult alone = engine->generate_and_wait(request).value();
  ASSERT_EQ(alone.text.find(' '), 1u) << alone.text;
  request.continues_text = true;
  const GenerationResult behind = engine->generate_and_wait(request).value();
  EXPECT_EQ(behind.text, " " + alone.text);
  EXPECT_EQ(behind.tokens.front().text, " " + alone.tokens.front().text);
  EXPECT_EQ(behind.logits_digest, alone.logits_digest);

  std::vector<TokenId> ids;
  for (const TokenInfo& token : behind.tokens) ids.push_back(token.id);
  EXPECT_EQ(answer_text(engine->tokenizer(), request, ids), behind.text);
  EXPECT_EQ(engine->score(request, ids)->text, behind.text);

  // Behind a special token, of which a text shows nothing, it goes on with nothing.
  request.prompt_ids = {1};
  const GenerationResult first = engine->generate_and_wait(request).value();
  EXPECT_NE(first.text.front(), ' ');
}

TEST_F(RequestTest, RequestsThatMakeNoSenseAreRefusedOneByOne) {
  const std::vector<TokenId> prompt{5, 6, 7};
  EXPECT_EQ(code_of(engine_->generate_and_wait(greedy({}, 4))), Errc::invalid_input);
  EXPECT_EQ(code_of(engine_->generate_and_wait(greedy({-1}, 4))), Errc::invalid_input);
  EXPECT_EQ(code_of(engine_->generate_and_wait(greedy({96}, 4))), Errc::invalid_input);
  EXPECT_EQ(code_of(engine_->generate_and_wait(greedy(std::vector<TokenId>(1025, 5), 4))),
            Errc::invalid_input);
  EXPECT_EQ(code_of(engine_->score(greedy(prompt, 4), {5, 96})), Errc::invalid_input);
  EXPECT_EQ(code_of(engine_->score(greedy(prompt, 4), std::vector<TokenId>(1022, 5))),
            Errc::invalid_input);
  const auto sampling = [&](auto change) {
    auto request = seeded(prompt, 4, 1);
    change(request);
    return code_of(engine_->generate_and_wait(request));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sampling([&](auto& r) { r.sampling.temperature = nan; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.sampling.temperature = -1; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.sampling.temperature = 1e-60; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.sampling.top_p = 1.5; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.sampling.repetition_penalty = 0; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.sampling.logit_bias = {{96, 1}}; }), Errc::invalid_input);
  EXPECT_EQ(sampling([](auto& r) { r.stop = {""}; }), Errc::invalid_input);
}

TEST_F(RequestTest, NoTokensWantedIsAnEmptyAnswer) {
  const auto result = engine_->generate_and_wait(greedy({5}, 0)).value();
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.finish, FinishReason::length);
  EXPECT_EQ(result.logits_digest, sha256(std::string_view()));
  EXPECT_TRUE(engine_->score(greedy({5}, 0), {}).value().tokens.empty());
}

TEST_F(RequestTest, AnAnswerEndsWhereTheContextDoes) {
  TinyRandom random(1);
  const auto result = engine_->generate_and_wait(greedy(random_ids(random, 1020, 96), 100)).value();
  EXPECT_EQ(result.tokens.size(), 4u);
  EXPECT_EQ(result.finish, FinishReason::length);
  const auto full = engine_->generate_and_wait(greedy(random_ids(random, 1024, 96), 100)).value();
  EXPECT_TRUE(full.tokens.empty());
  // What was generated to the very end can be scored.
  auto again = greedy(random_ids(random, 1020, 96), 100);
  const auto answer = engine_->generate_and_wait(again).value();
  expect_same(engine_->score(again, ids_of(answer)).value(), answer, "to the end of the context");
}

TEST_F(RequestTest, TheEndOfSequenceEndsTheAnswerIsItsLastTokenAndHasNoText) {
  // A bias makes the model say EOS (id 2) at once.
  auto request = greedy({5, 6}, 10);
  request.sampling.logit_bias = {{2, 1000}};
  const auto going_on = engine_->generate_and_wait(request).value();
  EXPECT_EQ(going_on.tokens.size(), 10u) << "ignore_eos goes on";
  request.ignore_eos = false;
  const auto result = engine_->generate_and_wait(request).value();
  ASSERT_EQ(result.tokens.size(), 1u);
  EXPECT_EQ(result.tokens[0].id, 2);
  EXPECT_EQ(result.tokens[0].text, "");
  EXPECT_EQ(result.finish, FinishReason::stop);
  EXPECT_EQ(result.stop_sequence, "");
  // The row that chose it is part of the digest, and biases are not.
  EXPECT_EQ(result.tokens[0].row_digest8, going_on.tokens[0].row_digest8);
  expect_same(engine_->score(request, {2}).value(), result, "scored");
}

TEST_F(RequestTest, EveryStopSequenceCutsTheTextBeforeItsFirstOccurrence) {
  const auto request = seeded({10, 11, 12}, 60, 4);
  const auto whole = engine_->generate_and_wait(request).value();
  ASSERT_GE(whole.text.size(), 50u);
  std::string joined;
  for (const auto& token : whole.tokens) joined += token.text;
  EXPECT_EQ(joined, whole.text);
  for (std::size_t at = 0; at + 4 < whole.text.size(); at += 3) {
    for (const std::size_t length : {1u, 2u, 4u}) {
      auto stopping = request;
      // The second is a beginning of the first that goes on otherwise: held back, then given out.
      stopping.stop = {whole.text.substr(at, length), whole.text.substr(at, 1) + "\x01"};
      std::string given;
      std::promise<GenerationResult> promise;
      (void)engine_->generate(
          stopping, [&](const TokenInfo& token) { given += token.text; },
          [&](auto result) { promise.set_value(result.value()); });
      const auto result = promise.get_future().get();
      const auto first = whole.text.find(stopping.stop[0]);
      EXPECT_EQ(result.text, whole.text.substr(0, first));
      EXPECT_EQ(given, result.text) << "no part of a stop sequence is given out";
      EXPECT_EQ(result.stop_sequence, stopping.stop[0]);
      EXPECT_EQ(result.finish, FinishReason::stop);
      // Tokens and rows are those of the answer that would have gone on.
      ASSERT_LE(result.tokens.size(), whole.tokens.size());
      for (std::size_t i = 0; i < result.tokens.size(); ++i)
        EXPECT_EQ(result.tokens[i].row_digest8, whole.tokens[i].row_digest8);
    }
  }
}

TEST_F(RequestTest, WhatWasHeldBackComesWithTheLastTokenWhenTheAnswerEndsOtherwise) {
  const auto request = seeded({10, 11, 12}, 12, 9);
  const auto whole = engine_->generate_and_wait(request).value();
  auto stopping = request;
  stopping.stop = {whole.text.substr(whole.text.size() - 3) + "\x01"};
  const auto result = engine_->generate_and_wait(stopping).value();
  EXPECT_EQ(result.text, whole.text);
  EXPECT_EQ(result.finish, FinishReason::length);
  std::string joined;
  for (const auto& token : result.tokens) joined += token.text;
  EXPECT_EQ(joined, whole.text);
}

TEST_F(RequestTest, TopLogProbabilitiesAreOrderedAndAddUpToLessThanOne) {
  auto request = greedy({20, 21}, 3);
  request.top_logprobs = 200;  // more than there are
  for (const auto& token : engine_->generate_and_wait(request).value().tokens) {
    ASSERT_EQ(token.top.size(), 96u);
    EXPECT_EQ(token.top[0], (std::pair{token.id, token.logprob}));
    double sum = 0;
    for (std::size_t i = 0; i < token.top.size(); ++i) {
      sum += std::exp(double{token.top[i].second});
      if (i > 0) {
        EXPECT_LE(token.top[i].second, token.top[i - 1].second);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_GT(token.margin, 0);
  }
}

TEST_F(RequestTest, ScoringSaysWhereTheEngineWouldHaveChosenOtherwise) {
  const auto request = greedy({30, 31, 32}, 12);
  const auto honest = engine_->generate_and_wait(request).value();
  auto ids = ids_of(honest);
  const TokenId right = ids[7], wrong = right == 50 ? 51 : 50;
  ids[7] = wrong;
  const auto scored = engine_->score(request, ids).value();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i < 8) {
      EXPECT_EQ(scored.tokens[i].row_digest8, honest.tokens[i].row_digest8);
    }
    if (i > 7) {
      EXPECT_NE(scored.tokens[i].row_digest8, honest.tokens[i].row_digest8);
    }
    EXPECT_EQ(scored.tokens[i].id, ids[i]);
  }
  EXPECT_FALSE(scored.tokens[7].chosen);
  EXPECT_EQ(scored.tokens[7].best, right);
  EXPECT_GE(scored.tokens[7].deficit, scored.tokens[7].margin);
  EXPECT_GT(scored.tokens[7].deficit, 0);
  EXPECT_NE(scored.logits_digest, honest.logits_digest);
}

TEST_F(RequestTest, ACancelledAnswerEndsOnceAndKeepsWhatItHad) {
  std::promise<void> three;
  std::promise<Result<GenerationResult>> done;
  int tokens = 0;
  const auto running = engine_->generate(
      greedy({5, 6, 7}, 1000),
      [&](const TokenInfo&) {
        if (++tokens == 3) three.set_value();
      },
      [&](auto result) { done.set_value(std::move(result)); });
  three.get_future().get();
  running->cancel();
  running->cancel();
  const auto result = done.get_future().get().value();
  if (result.finish == FinishReason::length) GTEST_SKIP() << "the answer was faster than cancel()";
  EXPECT_EQ(result.finish, FinishReason::cancelled);
  EXPECT_GE(result.tokens.size(), 3u);
  // Its digest is that of the rows it had.
  auto request = greedy({5, 6, 7}, 1000);
  EXPECT_EQ(engine_->score(request, ids_of(result)).value().logits_digest, result.logits_digest);
}

TEST_F(RequestTest, DestroyingTheEngineEndsEveryRequestOnce) {
  std::atomic<int> ends{0};
  for (int i = 0; i < 50; ++i)
    (void)engine_->generate(greedy({5, 6, 7}, 1000), nullptr, [&](const auto&) { ++ends; });
  engine_.reset();
  EXPECT_EQ(ends, 50);
}

TEST_F(RequestTest, TheLastOwnerMayBeACallback) {
  std::promise<void> done;
  Engine& engine = *engine_;
  (void)engine.generate(greedy({5}, 2), nullptr,
                        [&, owner = std::move(engine_)](const auto&) mutable {
                          owner.reset();
                          done.set_value();
                        });
  done.get_future().get();
}

/// Blocks the engine's thread in a callback until opened.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false, reached = false;
  void wait() {
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

TEST_F(RequestTest, AFullQueueRefusesAndAWaitingRequestCanBeCancelled) {
  EngineOptions options;
  options.queue_max = 2;
  const auto engine = load(folder_, options);
  Gate gate;
  (void)engine->generate(
      greedy({5}, 1), [&](const TokenInfo&) { gate.wait(); }, [](auto) {});
  gate.wait_until_reached();
  std::vector<std::promise<Result<GenerationResult>>> ends(3);
  std::vector<std::shared_ptr<Generation>> running;
  for (std::size_t i = 0; i < 3; ++i)
    running.push_back(engine->generate(greedy({6}, 3), nullptr, [&ends, i](auto result) {
      ends[i].set_value(std::move(result));
    }));
  running[1]->cancel();
  gate.release();
  EXPECT_EQ(ends[0].get_future().get().value().tokens.size(), 3u);
  const auto cancelled = ends[1].get_future().get().value();
  EXPECT_EQ(cancelled.finish, FinishReason::cancelled);
  EXPECT_TRUE(cancelled.tokens.empty());
  EXPECT_EQ(code_of(ends[2].get_future().get()), Errc::unavailable);
}

TEST_F(RequestTest, RequestsWaitForKvMemoryAndOneThatNeverFitsIsRefused) {
  // A block holds 256 positions of 2 layers, 2 heads of 8, k and v, f32.
  constexpr std::size_t kBlockBytes = 256u * 2 * 2 * 8 * 2 * 4;
  EngineOptions options;
  options.kv_bytes_max = 3 * kBlockBytes;
  const auto engine = load(folder_, options);
  EXPECT_EQ(code_of(engine->generate_and_wait(greedy({5}, 1000))), Errc::invalid_input);
  TinyRandom random(2);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 12; ++i)
    requests.push_back(greedy(random_ids(random, 200 + random.below(250), 96), 60));
  std::vector<std::promise<Result<GenerationResult>>> ends(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    (void)engine->generate(requests[i], nullptr,
                           [&ends, i](auto result) { ends[i].set_value(std::move(result)); });
  for (std::size_t i = 0; i < requests.size(); ++i)
    expect_same(ends[i].get_future().get().value(), engine_->generate_and_wait(requests[i]).value(),
                std::to_string(i));
}

TEST_F(RequestTest, NanInOneRequestEndsItAndLeavesItsNeighboursAlone) {
  auto model = TinyModel{};
  auto tensors = test::tiny_tensors(model);
  // Token 5 is poison: its embedding is NaN.
  auto& embedding = tensors.at("model.embed_tokens.weight").values;
  embedding[5 * model.hidden] = std::numeric_limits<float>::quiet_NaN();
  const auto folder = test::fresh_dir("-poison");
  std::filesystem::copy(
      folder_, folder,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  test::write_bytes(folder / "model.safetensors", test::safetensors_bytes(tensors, "F32"));
  const auto engine = load(folder);
  auto healthy = seeded({7, 8, 9}, 50, 3);
  healthy.sampling.logit_bias = {{5, -1000}};  // it must not choose the poison itself
  std::vector<std::promise<Result<GenerationResult>>> ends(9);
  for (std::size_t i = 0; i < ends.size(); ++i)
    (void)engine->generate(i % 2 == 0 ? healthy : greedy({7, 5, 9}, 50), nullptr,
                           [&ends, i](auto result) { ends[i].set_value(std::move(result)); });
  const auto expected = engine_->generate_and_wait(healthy).value();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto result = ends[i].get_future().get();
    if (i % 2 == 0) {
      ASSERT_TRUE(result);
      expect_same(*result, expected, "a neighbour of NaN");
    } else {
      EXPECT_EQ(code_of(result), Errc::out_of_range);
    }
  }
  EXPECT_EQ(code_of(engine->score(greedy({7, 8}, 0), {5, 9})), Errc::out_of_range);
}

TEST(LoadTest, AnEngineWithoutATokenizerHasIdsOnlyAndRefusesStopSequences) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  const auto engine = load(folder);
  EXPECT_EQ(engine->tokenizer(), nullptr);
  EXPECT_EQ(engine->chat_template(), nullptr);
  EXPECT_EQ(engine->context_max(), 1024u);
  EXPECT_EQ(engine->vocab_size(), 96u);
  EXPECT_EQ(engine->eos_ids(), std::vector<TokenId>{2});
  EXPECT_EQ(engine->profile(), "f32-k256/1");
  const auto result = engine->generate_and_wait(greedy({5}, 4)).value();
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.tokens.size(), 4u);
  auto stopping = greedy({5}, 4);
  stopping.stop = {"x"};
  EXPECT_EQ(code_of(engine->generate_and_wait(stopping)), Errc::invalid_input);
}

TEST(LoadTest, GenerationConfigDecidesWhatEndsAnAnswer) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  test::write_bytes(folder / "generation_config.json", R"({"eos_token_id": [4, 7]})");
  EXPECT_EQ(load(folder)->eos_ids(), (std::vector<TokenId>{4, 7}));
  test::write_bytes(folder / "generation_config.json", R"({"eos_token_id": 96})");
  EXPECT_EQ(Engine::load(folder, {}).error().code, Errc::invalid_input);
}

TEST(LoadTest, UnknownProfilesAndBackendsAreRefusedByName) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, TinyModel{});
  EngineOptions options;
  options.profile = "mma-ampere/1";
  EXPECT_EQ(Engine::load(folder, options).error().code, Errc::invalid_input);
  EXPECT_NE(Engine::load(folder, options).error().what.find("mma-ampere/1"), std::string::npos);
  EXPECT_EQ(Engine::load(folder, with_backend("cuda")).error().code, Errc::unsupported);
  EXPECT_EQ(Engine::load(folder, with_backend("neon")).error().code, Errc::invalid_input);
}

TEST(BuildIdTest, NamesVersionCompilerAndSources) {
  const std::string id = build_id();
  EXPECT_EQ(id, build_id());
  EXPECT_NE(id.find(VERBATIM_VERSION), std::string::npos);
  const auto at = id.find("sources sha256:");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(id.size() - at, std::string("sources sha256:").size() + 64);
}

}  // namespace
}  // namespace verbatim::local_engine
