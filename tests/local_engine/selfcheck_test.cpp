// The self-check passes on the engine, and finds an engine that breaks a promise.

#include "local_engine/selfcheck.hpp"

#include "tests/local_engine/engine_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace verbatim::local_engine {
namespace {

/// An engine of which one promise is broken.
class WrongEngine final : public Engine {
 public:
  enum class Fault { batch, score, output };
  WrongEngine(std::shared_ptr<Engine> engine, Fault fault)
      : engine_(std::move(engine)), fault_(fault) {}

  std::shared_ptr<Generation> generate(
      GenerationRequest request, std::function<void(const TokenInfo&)> on_token,
      std::function<void(Result<GenerationResult>)> done) override {
    ++running_;
    return engine_->generate(std::move(request), std::move(on_token),
                             [this, done = std::move(done)](Result<GenerationResult> result) {
                               const bool alone = running_-- == 1;
                               const bool wrong =
                                   fault_ == Fault::output || (fault_ == Fault::batch && !alone);
                               done(wrong ? spoiled(std::move(result)) : std::move(result));
                             });
  }
  Result<GenerationResult> score(const GenerationRequest& request,
                                 const std::vector<TokenId>& output_ids) override {
    auto result = engine_->score(request, output_ids);
    return fault_ == Fault::score ? spoiled(std::move(result)) : std::move(result);
  }
  const Fingerprint& fingerprint() const override { return engine_->fingerprint(); }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return engine_->tokenizer(); }
  std::shared_ptr<const ChatTemplate> chat_template() const override {
    return engine_->chat_template();
  }
  std::string backend() const override { return engine_->backend(); }
  std::string profile() const override { return engine_->profile(); }
  std::size_t context_max() const override { return engine_->context_max(); }
  std::size_t vocab_size() const override { return engine_->vocab_size(); }
  std::size_t hidden_size() const override { return engine_->hidden_size(); }
  const std::vector<TokenId>& eos_ids() const override { return engine_->eos_ids(); }

 private:
  /// One bit of the last row.
  static Result<GenerationResult> spoiled(Result<GenerationResult> result) {
    if (result && !result->tokens.empty()) result->tokens.back().row_digest8[7] ^= 1;
    return result;
  }
  std::shared_ptr<Engine> engine_;
  Fault fault_;
  std::atomic<int> running_{0};
};

class SelfcheckTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::fresh_dir();
    test::write_tiny_model(folder_, test::TinyModel{});
  }
  /// The findings that failed when the engine that `select` picks has this fault.
  std::vector<std::string> failures(WrongEngine::Fault fault,
                                    const std::function<bool(const EngineOptions&)>& select) {
    const EngineFactory make =
        [&](const EngineOptions& options) -> Result<std::shared_ptr<Engine>> {
      auto engine = Engine::load(folder_, options);
      if (!engine || !select(options)) return engine;
      return std::shared_ptr<Engine>(std::make_shared<WrongEngine>(*engine, fault));
    };
    const auto report = selfcheck(make, {"scalar", "auto"}, 0).value();
    std::vector<std::string> failed;
    for (const auto& finding : report.findings) {
      if (!finding.passed) failed.push_back(finding.check);
      EXPECT_EQ(finding.passed, finding.first_difference.empty());
    }
    EXPECT_EQ(report.passed, failed.empty());
    return failed;
  }
  std::filesystem::path folder_;
};

TEST_F(SelfcheckTest, PassesOnTheEngine) {
  const auto report = selfcheck(folder_, 0.2).value();
  EXPECT_TRUE(report.passed);
  ASSERT_EQ(report.findings.size(), report.backends.size() > 1 ? 5u : 4u);
  for (const auto& finding : report.findings) {
    EXPECT_TRUE(finding.passed) << finding.first_difference;
    EXPECT_GT(finding.cases, 0u) << finding.check;
  }
  EXPECT_GT(report.tokens, 0u);
  EXPECT_GE(report.seconds, 0.2);
}

TEST_F(SelfcheckTest, FindsABackendThatComputesOtherwise) {
  EXPECT_EQ(failures(WrongEngine::Fault::output,
                     [](const EngineOptions& o) { return o.backend == "scalar"; }),
            (std::vector<std::string>{"backends_agree", "batch_invariance", "decode_equals_prefill",
                                      "chunking"}));
}

TEST_F(SelfcheckTest, FindsDependenceOnNeighbours) {
  EXPECT_EQ(failures(WrongEngine::Fault::batch,
                     [](const EngineOptions& o) { return o.backend == "auto" && o.prefix_cache; }),
            std::vector<std::string>{"batch_invariance"});
}

TEST_F(SelfcheckTest, FindsAPrefillThatIsNotDecode) {
  EXPECT_EQ(failures(WrongEngine::Fault::score,
                     [](const EngineOptions& o) { return o.backend == "auto"; }),
            std::vector<std::string>{"decode_equals_prefill"});
}

TEST_F(SelfcheckTest, FindsDependenceOnChunks) {
  EXPECT_EQ(failures(WrongEngine::Fault::output,
                     [](const EngineOptions& o) { return o.prefill_chunk < 100; }),
            std::vector<std::string>{"chunking"});
}

TEST_F(SelfcheckTest, AModelWhoseRowsAreNoNumbersIsRefusedByNothingCompared) {
  auto tensors = test::tiny_tensors(test::TinyModel{});
  for (float& value : tensors.at("model.norm.weight").values) value = NAN;
  test::write_bytes(folder_ / "model.safetensors", test::safetensors_bytes(tensors, "F32"));
  const auto report = selfcheck(folder_, 0).value();
  EXPECT_FALSE(report.passed);
  for (const auto& finding : report.findings) {
    EXPECT_FALSE(finding.passed) << finding.check;
    EXPECT_EQ(finding.cases, 0u);
    EXPECT_NE(finding.first_difference.find("the engine refused"), std::string::npos)
        << finding.first_difference;
  }
}

TEST_F(SelfcheckTest, WeightsThatAreNoneKeepEveryPromiseButTellNothingApart) {
  auto tensors = test::tiny_tensors(test::TinyModel{});
  for (auto& [name, tensor] : tensors) std::fill(tensor.values.begin(), tensor.values.end(), 0.0f);
  test::write_bytes(folder_ / "model.safetensors", test::safetensors_bytes(tensors, "F32"));
  const auto report = selfcheck(folder_, 0).value();
  EXPECT_FALSE(report.passed);
  for (const auto& finding : report.findings)
    EXPECT_EQ(finding.passed, finding.check != "tells_tokens_apart") << finding.first_difference;
}

TEST_F(SelfcheckTest, WithOneBackendThereIsNoneToAgreeWith) {
  const auto report =
      selfcheck([&](const EngineOptions& options) { return Engine::load(folder_, options); },
                {"scalar"}, 0)
          .value();
  EXPECT_TRUE(report.passed);
  for (const auto& finding : report.findings) EXPECT_NE(finding.check, "backends_agree");
}

TEST_F(SelfcheckTest, AModelThatDoesNotLoadIsAnErrorNotAFinding) {
  EXPECT_EQ(selfcheck(folder_ / "absent", 0).error().code, Errc::not_found);
}

}  // namespace
}  // namespace verbatim::local_engine
