// Against references made by others: log-probabilities from f64 and from a plain f32 program, GGUF
// and safetensors of the same trained weights, and the text that the tokenizer makes of the answer.

#include "local_engine/fingerprint.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <fstream>

namespace verbatim::local_engine {
namespace {

std::vector<Json> lines(const std::filesystem::path& file) {
  std::vector<Json> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) all.push_back(parse_json(line).value());
  return all;
}

class ExpectedTest : public testing::TestWithParam<std::string> {};

TEST_P(ExpectedTest, TokensAreThoseOfTheF64ReferenceAndLogProbabilitiesWithin2e5) {
  VERBATIM_NEED_SHARED(folder, "data/models/" + GetParam());
  // stories260K-mixtral4 exists as GGUF only.
  const bool gguf = !std::filesystem::exists(folder / "model.safetensors");
  const auto engine = load(gguf ? folder / "model-f32.gguf" : folder);
  ASSERT_NE(engine, nullptr);
  double worst = 0;
  for (const auto& line : lines(folder / "expected.jsonl")) {
    const auto ids = line.at("ids").get<std::vector<TokenId>>();
    const auto output = line.at("greedy_ids").get<std::vector<TokenId>>();
    const auto request = greedy(ids, static_cast<std::uint32_t>(output.size()));
    const auto result = engine->generate_and_wait(request).value();
    ASSERT_EQ(ids_of(result), output);
    for (std::size_t i = 0; i < output.size(); ++i) {
      worst = std::max(worst, std::abs(double{result.tokens[i].logprob} -
                                       line.at("greedy_logprobs")[i].get<double>()));
      EXPECT_NEAR(result.tokens[i].margin, line.at("greedy_margins")[i].get<double>(), 5e-5);
    }
    // The prompt's own tokens, scored from its first.
    const auto scored = engine->score(greedy({ids[0]}, 0), {ids.begin() + 1, ids.end()}).value();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      worst = std::max(worst, std::abs(double{scored.tokens[i].logprob} -
                                       line.at("prompt_logprobs")[i].get<double>()));
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 2e-5);
  EXPECT_GT(worst, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpectedTest,
                         testing::Values("stories260K-hf", "stories260K-mixtral4",
                                         "tiny-random-llama", "tiny-random-mistral",
                                         "tiny-random-qwen2", "tiny-random-qwen3",
                                         "tiny-random-mixtral", "tiny-random-qwen3-moe",
                                         "tiny-random-gemma2", "tiny-random-gemma3"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ExpectedTest, TheReferenceProgramsGreedyRunsAreReproducedWithin5e5) {
  VERBATIM_NEED_SHARED(folder, "data/models");
  const auto engine = load(folder / "stories260K-hf");
  double worst = 0;
  for (const auto& line : lines(folder / "stories260K/expected-greedy.jsonl")) {
    const auto prompt = line.at("prompt_ids").get<std::vector<TokenId>>();
    std::vector<TokenId> output;
    for (const auto& step : line.at("steps")) {
      if (step.at("pos").get<std::size_t>() + 1 >= prompt.size())
        output.push_back(step.at("id").get<TokenId>());
    }
    const auto result =
        engine->generate_and_wait(greedy(prompt, static_cast<std::uint32_t>(output.size())))
            .value();
    ASSERT_EQ(ids_of(result), output) << line.at("prompt");
    std::size_t at = 0;
    for (const auto& step : line.at("steps")) {
      if (step.at("pos").get<std::size_t>() + 1 < prompt.size()) continue;
      worst = std::max(
          worst, std::abs(double{result.tokens[at++].logprob} - step.at("logprob").get<double>()));
    }
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 5e-5);
}

TEST(ExpectedTest, EveryFileOfTheSameNumbersGivesTheSameDigests) {
  VERBATIM_NEED_SHARED(folder, "data/models");
  const std::pair<std::string, std::string> pairs[] = {
      {"stories260K-hf", "stories260K/stories260K.gguf"},
      {"tiny-random-llama", "tiny-random-llama/model-f32.gguf"},
      {"tiny-random-mistral", "tiny-random-mistral/model-f32.gguf"},
      {"tiny-random-qwen2", "tiny-random-qwen2/model-f32.gguf"},
      {"tiny-random-qwen3", "tiny-random-qwen3/model-f32.gguf"},
      {"tiny-random-mixtral", "tiny-random-mixtral/model-f32.gguf"},
      {"tiny-random-qwen3-moe", "tiny-random-qwen3-moe/model-f32.gguf"},
      {"tiny-random-gemma2", "tiny-random-gemma2/model-f32.gguf"},
      {"tiny-random-gemma3", "tiny-random-gemma3/model-f32.gguf"}};
  for (const auto& [a, b] : pairs) {
    const auto one = load(folder / a), other = load(folder / b);
    ASSERT_NE(other, nullptr) << b;
    const auto request = greedy({1, 403, 407, 261, 378}, 60);
    const auto x = one->generate_and_wait(request).value();
    const auto y = other->generate_and_wait(request).value();
    EXPECT_EQ(ids_of(x), ids_of(y)) << a;
    EXPECT_EQ(x.logits_digest, y.logits_digest) << a;
  }
}

TEST(ExpectedTest, HalfPrecisionAndQuantisedGgufsRun) {
  VERBATIM_NEED_SHARED(folder, "data/models/stories260K");
  const auto request = greedy({1, 403, 407, 261, 378}, 40);
  const auto full = load(folder / "stories260K.gguf")->generate_and_wait(request).value();
  const auto half = load(folder / "stories260K-F16.gguf")->generate_and_wait(request).value();
  EXPECT_EQ(ids_of(half), ids_of(full));
  EXPECT_NE(half.logits_digest, full.logits_digest);
  EXPECT_TRUE(load(folder / "stories260K-BF16.gguf")->generate_and_wait(request));
  EXPECT_TRUE(load(folder / "stories260K-Q4_K_M.gguf")->generate_and_wait(request));
}

TEST(ExpectedTest, TheQuantisedModelIsWithinTheOtherEnginesRoundingOfActivations) {
  // The reference rounds activations to 8 bits for these products, this engine does not: an error of
  // 1/254 of the largest of 32 in each product, which adds up to some hundredths of a logit.
  VERBATIM_NEED_SHARED(folder, "data/models/stories260K");
  const auto engine = load(folder / "stories260K-Q4_K_M.gguf");
  ASSERT_NE(engine, nullptr);
  double worst = 0;
  std::size_t compared = 0;
  for (const auto& line : lines(folder / "expected-llamacpp.jsonl")) {
    if (line.at("file") != "stories260K-Q4_K_M.gguf" || line.at("kv_cache") != "f32") continue;
    const auto ids = line.at("ids").get<std::vector<TokenId>>();
    auto output = line.at("greedy_ids").get<std::vector<TokenId>>();
    const auto scored = engine->score(greedy(ids, 0), output).value();
    for (std::size_t i = 0; i < output.size(); ++i, ++compared)
      worst = std::max(worst, std::abs(double{scored.tokens[i].logprob} -
                                       line.at("greedy_logprobs")[i].get<double>()));
  }
  RecordProperty("worst_difference", std::to_string(worst));
  EXPECT_GT(compared, 300u);
  EXPECT_LT(worst, 0.1);
}

TEST(ExpectedTest, TheTrainedModelTellsItsStoryInText) {
  VERBATIM_NEED_SHARED(folder, "data/models/stories260K-hf");
  const auto engine = load(folder);
  const auto prompt = engine->tokenizer()->encode("Once upon a time", {}).value();
  EXPECT_EQ(prompt, (std::vector<TokenId>{1, 403, 407, 261, 378}));
  auto request = greedy(prompt, 62);
  const std::string story =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
      "saw "
      "a big, red ball. She wanted to play with it, but it was too high.\nLily";
  const auto result = engine->generate_and_wait(request).value();
  EXPECT_EQ(result.text.substr(0, story.size()), story);
  request.stop = {"outside in", "park"};
  const auto stopped = engine->generate_and_wait(request).value();
  EXPECT_EQ(stopped.text, ", there was a little girl named Lily. She loved to play ");
  EXPECT_EQ(stopped.stop_sequence, "outside in");
  EXPECT_EQ(engine->fingerprint().tokenizer_sha256, engine->tokenizer()->sha256());
  const auto gguf = load(folder / ".." / "stories260K" / "stories260K.gguf");
  EXPECT_EQ(gguf->fingerprint().tokenizer_sha256, gguf->tokenizer()->sha256());
  EXPECT_EQ(gguf->generate_and_wait(greedy(prompt, 62)).value().text, result.text);
}

}  // namespace
}  // namespace verbatim::local_engine
