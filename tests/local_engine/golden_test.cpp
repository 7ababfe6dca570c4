// The golden results of each profile, made by an independent scalar implementation: bit for bit.

#include "kernels/backend.hpp"
#include "local_engine/engine.hpp"
#include "schema/canonical_json.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace verbatim::local_engine {
namespace {

std::vector<Json> lines(const std::filesystem::path& file) {
  std::vector<Json> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) all.push_back(parse_json(line).value());
  return all;
}

std::shared_ptr<Engine> load(const std::filesystem::path& path, const std::string& backend,
                             const std::string& profile) {
  EngineOptions options;
  options.backend = backend;
  options.profile = profile;
  options.threads = 2;
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
  return engine ? *engine : nullptr;
}

GenerationRequest request_of(const Json& line, std::size_t outputs) {
  GenerationRequest request;
  request.prompt_ids = line.at("prompt_ids").get<std::vector<TokenId>>();
  request.tokens_max = static_cast<std::uint32_t>(outputs);
  request.ignore_eos = true;
  if (line.contains("seed")) {
    request.sampling.seed = line.at("seed").get<std::uint64_t>();
    request.sampling.temperature = std::stod(line.at("temperature").get<std::string>());
  }
  return request;
}

void expect_golden(const Json& line, const Result<GenerationResult>& result) {
  ASSERT_TRUE(result) << result.error().message();
  const auto ids = line.at(line.contains("seed") ? "sampled_ids" : "greedy_ids");
  const auto& digests = line.at("row_digest8");
  ASSERT_EQ(result->tokens.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(to_hex(result->tokens[i].row_digest8), digests[i].get<std::string>()) << "row " << i;
    ASSERT_EQ(result->tokens[i].id, ids[i].get<TokenId>()) << "token " << i;
    EXPECT_TRUE(result->tokens[i].chosen);
  }
  EXPECT_EQ(result->logits_digest.hex(), line.at("logits_digest").get<std::string>());
}

/// A model folder and one of its files of golden lines.
struct Golden {
  std::string model, file;
};

class GoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, EveryBackendReproducesEveryRowByGeneratingAndByScoring) {
  VERBATIM_NEED_SHARED(folder, "data/models/" + GetParam().model);
  const auto golden = lines(folder / GetParam().file);
  ASSERT_FALSE(golden.empty());
  for (const auto backend : kernels::supported_backends()) {
    SCOPED_TRACE(std::string(kernels::name(backend)));
    const auto profile = golden.front().value("profile", "f32-k256/1");
    const auto engine = load(folder, std::string(kernels::name(backend)), profile);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->profile(), profile);
    EXPECT_EQ(engine->backend(), kernels::name(backend));
    for (const auto& line : golden) {
      const auto ids =
          line.at(line.contains("seed") ? "sampled_ids" : "greedy_ids").get<std::vector<TokenId>>();
      const auto request = request_of(line, ids.size());
      expect_golden(line, engine->generate_and_wait(request));
      expect_golden(line, engine->score(request, ids));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values(Golden{"stories260K-hf", "golden-f32-k256.jsonl"},
                                         Golden{"stories260K-hf", "golden-f32-k256-sampled.jsonl"},
                                         Golden{"tiny-random-llama", "golden-f32-k256.jsonl"},
                                         Golden{"tiny-random-mistral", "golden-f32-k256.jsonl"},
                                         Golden{"tiny-random-qwen2", "golden-f32-k256.jsonl"},
                                         Golden{"tiny-random-qwen3", "golden-f32-k256.jsonl"},
                                         Golden{"tiny-random-qwen3",
                                                "golden-f32-k256-sampled.jsonl"},
                                         Golden{"tiny-random-mixtral", "golden-f32-k256.jsonl"},
                                         Golden{"tiny-random-qwen3-moe", "golden-f32-k256.jsonl"},
                                         Golden{"wide-random-llama", "golden-f32-k256.jsonl"},
                                         Golden{"wide-random-llama", "golden-mma-hopper.jsonl"}),
                         [](const auto& param_info) {
                           std::string name = param_info.param.model + "_" + param_info.param.file;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace verbatim::local_engine
