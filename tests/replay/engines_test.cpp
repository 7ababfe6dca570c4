// The engines of a run: which are loaded, which are checked, and that several threads may ask for them.

#include "audit/shared_records.hpp"
#include "gateway/local_answer.hpp"
#include "replay/engine_check.hpp"
#include "replay/statement.hpp"
#include "tests/replay/recorded_world.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <future>

namespace verbatim {
namespace {

using test::Exchange;

/// An engine whose batches are wrong: what a self-check is for.
class WrongInBatches final : public local_engine::Engine {
 public:
  explicit WrongInBatches(std::shared_ptr<Engine> right) : right_(std::move(right)) {}
  std::shared_ptr<local_engine::Generation> generate(
      local_engine::GenerationRequest request,
      std::function<void(const local_engine::TokenInfo&)> on_token,
      std::function<void(Result<local_engine::GenerationResult>)> done) override {
    return right_->generate(std::move(request), std::move(on_token), std::move(done));
  }
  Result<local_engine::GenerationResult> score(
      const local_engine::GenerationRequest& request,
      const std::vector<local_engine::TokenId>& output) override {
    auto result = right_->score(request, output);
    if (result) result->logits_digest.bytes[0] ^= 1;
    return result;
  }
  const local_engine::Fingerprint& fingerprint() const override { return right_->fingerprint(); }
  std::shared_ptr<const local_engine::Tokenizer> tokenizer() const override {
    return right_->tokenizer();
  }
  std::shared_ptr<const local_engine::ChatTemplate> chat_template() const override {
    return right_->chat_template();
  }
  std::string backend() const override { return right_->backend(); }
  std::string profile() const override { return right_->profile(); }
  std::size_t context_max() const override { return right_->context_max(); }
  std::size_t vocab_size() const override { return right_->vocab_size(); }
  std::size_t hidden_size() const override { return right_->hidden_size(); }
  const std::vector<local_engine::TokenId>& eos_ids() const override { return right_->eos_ids(); }

 private:
  std::shared_ptr<Engine> right_;
};

class Engines : public testing::Test {
 protected:
  /// The same tensors beside a tokenizer file of other bytes: a model of its own.
  std::filesystem::path second_model() {
    const auto path = folder_ / "second";
    std::filesystem::copy(test::RecordedWorld::model_path(), path,
                          std::filesystem::copy_options::recursive);
    std::ofstream(path / "tokenizer.json", std::ios::app) << "\n";
    return path;
  }

  /// The model with every weight 0.
  std::filesystem::path wiped_model() {
    const auto path = folder_ / "wiped";
    std::filesystem::copy(test::RecordedWorld::model_path(), path,
                          std::filesystem::copy_options::recursive);
    std::fstream file(path / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    std::array<unsigned char, 8> size{};
    file.read(reinterpret_cast<char*>(size.data()), size.size());
    std::size_t header = 0;
    for (std::size_t i = size.size(); i-- > 0;) header = header << 8 | size[i];
    const std::size_t end = std::filesystem::file_size(path / "model.safetensors");
    file.seekp(static_cast<std::streamoff>(size.size() + header));
    file << std::string(end - size.size() - header, '\0');
    return path;
  }

  const std::filesystem::path folder_ = test::fresh_dir();
  test::RecordedWorld world_{folder_ / "data"};
};

TEST_F(Engines, WeightsThatAreNotTheOnesNamedAreTold) {
  const auto path = test::RecordedWorld::model_path();
  const std::string weights = test::RecordedWorld::engine()->fingerprint().weights_sha256.hex();
  replay::Engines engines({{"demo", path}, {"demo", second_model(), true}}, {},
                          [](const std::filesystem::path& from, const auto& options) {
                            return local_engine::Engine::load(from, options);
                          });
  EXPECT_TRUE(engines.with_weights(weights, "demo", "f32-k256/1"));
  EXPECT_TRUE(engines.vouched_otherwise("demo", weights));
  EXPECT_FALSE(engines.vouched_otherwise("other", weights));
  replay::Engines both({{"demo", path, true}, {"demo", wiped_model(), true}}, {}, nullptr);
  EXPECT_FALSE(both.vouched_otherwise("demo", weights));
}

TEST_F(Engines, AModelOfTheRecordsNameIsReadOnceAndOthersOnlyIfTheyHaveTheWeights) {
  const auto demo = test::RecordedWorld::engine();
  const std::string weights = demo->fingerprint().weights_sha256.hex();
  std::vector<std::string> loaded;
  const auto path = test::RecordedWorld::model_path();
  replay::Engines engines({{"other", path.parent_path()}, {"demo", path}, {"demo2", path}}, {},
                          [&](const std::filesystem::path& from, const auto&) {
                            loaded.push_back(from.filename().string());
                            return Result<std::shared_ptr<local_engine::Engine>>(demo);
                          });
  EXPECT_TRUE(engines.with_weights(weights, "demo", "f32-k256/1"));
  EXPECT_TRUE(engines.with_weights(weights, "demo", "f32-k256/1"));
  EXPECT_EQ(loaded, std::vector<std::string>{"model"});
  EXPECT_EQ(engines.checked(), 1U);
  EXPECT_TRUE(engines.named(
      "demo2", "f32-k256/1"));  // the same model under another name is not loaded again
  EXPECT_EQ(loaded.size(), 1U);
  EXPECT_EQ(engines.with_weights(std::string(64, 'b'), "demo", "f32-k256/1").error().code,
            Errc::not_found);
  EXPECT_TRUE(engines.name_has_other_weights("demo", std::string(64, 'b')));
  EXPECT_FALSE(engines.vouched_otherwise("demo", std::string(64, 'b')));  // nobody vouches for it
  EXPECT_FALSE(engines.name_has_other_weights("other", std::string(64, 'b')));
  EXPECT_EQ(loaded.size(), 1U);
}

TEST_F(Engines, AModelHasAnEngineForEachProfileThatRecordsName) {
  const std::string weights = world_.engine()->fingerprint().weights_sha256.hex();
  replay::Engines engines({{"demo", test::RecordedWorld::model_path(), /*vouched=*/true}}, {});
  const auto chains = engines.with_weights(weights, "demo", "f32-k256/1").value();
  const auto cores = engines.with_weights(weights, "demo", "mma-hopper/1").value();
  EXPECT_EQ(chains->profile(), "f32-k256/1");
  EXPECT_EQ(cores->profile(), "mma-hopper/1");
  EXPECT_EQ(engines.checked(), 2U);
  EXPECT_EQ(engines.named("demo", "mma-hopper/1").value(), cores);
  EXPECT_EQ(engines.with_weights(weights, "demo", "").value(), chains);
  EXPECT_EQ(engines.with_weights(weights, "demo", "of-tomorrow/1").value(), chains);
  EXPECT_EQ(engines.vouched("demo").value(), chains);
  EXPECT_EQ(engines.checked(), 2U);
  EXPECT_EQ(engines.counterpart({}, "scalar", weights, "mma-hopper/1").value()->profile(),
            "mma-hopper/1");
  EXPECT_EQ(engines.counterpart({}, "scalar", weights, "f32-k256/1").value()->profile(),
            "f32-k256/1");
}

TEST_F(Engines, AnEngineThatFailsItsCheckJudgesNobody) {
  EXPECT_EQ(replay::check_engine(*world_.engine()).value(), "");
  replay::Engines engines(world_.places, {}, [](const auto&, const auto&) {
    return Result<std::shared_ptr<local_engine::Engine>>(
        std::make_shared<WrongInBatches>(test::RecordedWorld::engine()));
  });
  replay::Environments environments{Json::object()};
  const SystemClock clock;
  replay::RecordedModels models;
  const Uuid id = world_.chat("Who are you?");
  const auto verdict = replay::replay_record(
      *world_.reader(), id, {engines, environments, models, nullptr, replay::Method::score, clock});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Errc::unavailable);
  EXPECT_TRUE(engines.failed());
  EXPECT_EQ(engines.checked(), 0U);
}

TEST_F(Engines, WeightsThatAreNoneFailTheCheck) {
  const auto engine = local_engine::Engine::load(wiped_model(), {}).value();
  EXPECT_NE(replay::check_engine(*engine).value().find("as likely as every other"),
            std::string::npos);
}

TEST_F(Engines, AreAllCheckedBeforeTheFirstVerdict) {
  const auto second = second_model();
  const std::string weights = local_engine::fingerprint(second).value().weights_sha256.hex();
  const Uuid honest = world_.chat("Who are you?");
  const Uuid other = world_.chat("What is a log?", [&](Exchange& exchange) {
    exchange.response["engine"]["weights_sha256"] = weights;
  });
  const Uuid hit = world_.chat("What is a log?", [&](Exchange& exchange) {
    exchange.response = {{"status", "cache_hit"}, {"origin", other.str()}};
  });
  const Uuid open = world_.open_request();
  const auto places = world_.places;
  const auto run = [&](const std::vector<Uuid>& ids, bool vouched = false) {
    replay::Engines engines({places[0], {vouched ? "demo" : "second", second, vouched}}, {},
                            [&](const std::filesystem::path& path, const auto& options) {
                              auto engine = local_engine::Engine::load(path, options);
                              if (engine && path == second)
                                engine = std::make_shared<WrongInBatches>(std::move(*engine));
                              return engine;
                            });
    const auto checked = replay::check_engines_of(*world_.reader(), ids, engines);
    EXPECT_EQ(checked.has_value(), !engines.failed());
    return std::pair(engines.failed(), engines.checked());
  };
  EXPECT_EQ(run({honest, open}), std::pair(false, std::size_t{1}));
  EXPECT_EQ(run({open}), std::pair(false, std::size_t{0}));
  EXPECT_EQ(run({honest, other}), std::pair(true, std::size_t{1}));
  EXPECT_EQ(run({hit}), std::pair(true, std::size_t{0}));
  const Uuid remote = world_.chat("What is a log?", [&](Exchange& exchange) {
    exchange.upstream = "somebody";
    exchange.response.erase("engine");
  });
  EXPECT_EQ(run({remote}), std::pair(false, std::size_t{0}));
  EXPECT_EQ(run({remote}, /*vouched=*/true), std::pair(true, std::size_t{0}));
}

TEST_F(Engines, SeveralThreadsReplayToTheSameBytesAsOne) {
  const auto second = second_model();
  world_.places.push_back({"second", second});
  const std::string weights = local_engine::fingerprint(second).value().weights_sha256.hex();
  // The same answer, as the second model's: its body names what answered.
  const auto by_the_second = [&](Exchange& exchange) {
    Json& engine = exchange.response["engine"];
    const std::string build = engine["build"], profile = engine["numerics_profile"];
    const std::string first =
        gateway::local_fingerprint(build, profile, std::string(engine["weights_sha256"]));
    const std::size_t at = exchange.response_body.find(first);
    ASSERT_NE(at, std::string::npos);
    exchange.response_body.replace(at, first.size(),
                                   gateway::local_fingerprint(build, profile, weights));
    engine["weights_sha256"] = weights;
  };
  std::vector<Uuid> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(
        world_.chat("Who are you, number " + std::to_string(i) + "?", [&](Exchange& exchange) {
          if (i % 2 == 1) by_the_second(exchange);
        }));
  }
  std::vector<std::string> alone;
  for (const Uuid& id : ids) {
    const auto verdict = world_.replay(id);
    EXPECT_EQ(verdict.kind, replay::VerdictKind::bitwise);
    alone.push_back(replay::statement(*world_.reader(), verdict).value());
  }
  const auto reader = world_.reader();
  audit::SharedRecords records(*reader);
  replay::Engines engines(world_.places, {});
  replay::Environments environments(world_.environment);
  replay::RecordedModels models;
  const SystemClock clock;
  const replay::ReplayWith with{engines, environments,          models,
                                nullptr, replay::Method::score, clock};
  std::vector<std::future<std::string>> together;
  for (const Uuid& id : ids) {
    together.push_back(std::async(std::launch::async, [&records, &with, id] {
      return replay::statement(records, replay::replay_record(records, id, with).value()).value();
    }));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(together[i].get(), alone[i]);
  EXPECT_EQ(engines.checked(), 2U);
}

}  // namespace
}  // namespace verbatim
