#pragma once
// What the engine's tests have in common: loading, asking, comparing bits.

#include "local_engine/engine.hpp"
#include "tests/support/shared.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace verbatim::local_engine {

/// Fails the test when the model does not load.
inline std::shared_ptr<Engine> load(const std::filesystem::path& path,
                                    const EngineOptions& options = {}) {
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
  return engine ? *engine : nullptr;
}

inline EngineOptions with_backend(const std::string& backend) {
  EngineOptions options;
  options.backend = backend;
  return options;
}

/// A prompt of any ids but 0 to 2.
inline std::vector<TokenId> random_ids(test::TinyRandom& random, std::size_t count,
                                       std::size_t vocab) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>(3 + random.below(vocab - 3)));
  return ids;
}

inline GenerationRequest greedy(std::vector<TokenId> prompt, std::uint32_t tokens_max) {
  GenerationRequest request;
  request.prompt_ids = std::move(prompt);
  request.tokens_max = tokens_max;
  request.ignore_eos = true;
  return request;
}

inline GenerationRequest seeded(std::vector<TokenId> prompt, std::uint32_t tokens_max,
                                std::uint64_t seed, double temperature = 0.9) {
  auto request = greedy(std::move(prompt), tokens_max);
  request.sampling.seed = seed;
  request.sampling.temperature = temperature;
  return request;
}

inline std::vector<TokenId> ids_of(const GenerationResult& result) {
  std::vector<TokenId> ids;
  for (const auto& token : result.tokens) ids.push_back(token.id);
  return ids;
}

/// All that must not depend on how an answer was computed.
inline void expect_same(const GenerationResult& a, const GenerationResult& b,
                        const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    const auto &x = a.tokens[i], &y = b.tokens[i];
    ASSERT_EQ(x.row_digest8, y.row_digest8) << "row " << i;
    ASSERT_EQ(x.id, y.id) << "token " << i;
    ASSERT_EQ(x.text, y.text) << "token " << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(x.logprob), std::bit_cast<std::uint32_t>(y.logprob));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(x.margin), std::bit_cast<std::uint32_t>(y.margin));
    ASSERT_EQ(x.top, y.top);
    ASSERT_EQ(x.best, y.best);
  }
  EXPECT_EQ(a.logits_digest, b.logits_digest);
  EXPECT_EQ(a.text, b.text);
}

}  // namespace verbatim::local_engine
