#include "replay/engine_check.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <random>

namespace verbatim::replay {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::GenerationResult;
using local_engine::TokenId;

constexpr std::array<std::size_t, 4> kPromptTokens = {1, 7, 33, 90};
constexpr std::uint32_t kOutputTokens = 12;

std::vector<GenerationRequest> requests_for(const Engine& engine) {
  std::mt19937_64 random(1);
  std::vector<GenerationRequest> requests;
  for (const std::size_t wanted : kPromptTokens) {
    GenerationRequest request;
    const std::size_t tokens =
        std::max<std::size_t>(1, std::min<std::size_t>(wanted, engine.context_max() / 2));
    for (std::size_t i = 0; i < tokens; ++i) {
      request.prompt_ids.push_back(static_cast<TokenId>(random() % engine.vocab_size()));
    }
    request.tokens_max = kOutputTokens;
    request.ignore_eos = true;
    request.sampling.temperature = requests.size() % 2 == 0 ? 0 : 1;
    request.sampling.seed = random();
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Result<GenerationResult>> together(Engine& engine,
                                               const std::vector<GenerationRequest>& requests) {
  std::vector<std::promise<Result<GenerationResult>>> promises(requests.size());
  std::vector<std::shared_ptr<local_engine::Generation>> running;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    running.push_back(
        engine.generate(requests[i], nullptr, [&promises, i](Result<GenerationResult> result) {
          promises[i].set_value(std::move(result));
        }));
  }
  std::vector<Result<GenerationResult>> results;
  for (auto& promise : promises) results.push_back(promise.get_future().get());
  return results;
}

bool same(const GenerationResult& alone, const GenerationResult& other) {
  if (other.logits_digest != alone.logits_digest || other.tokens.size() != alone.tokens.size()) {
    return false;
  }
  for (std::size_t i = 0; i < alone.tokens.size(); ++i) {
    if (other.tokens[i].id != alone.tokens[i].id || !other.tokens[i].chosen) return false;
  }
  return true;
}

/// Every token as likely as every other: what weights that are no weights give. Where it is greedy: noise tells apart what
/// the model does not.
bool says_nothing(const std::vector<GenerationRequest>& requests,
                  const std::vector<Result<GenerationResult>>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) return false;
    if (requests[i].sampling.temperature != 0) continue;
    for (const auto& token : results[i]->tokens) {
      if (token.margin != 0) return false;
    }
  }
  return true;
}

}  // namespace

Result<std::string> check_engine(Engine& engine) {
  const std::vector<GenerationRequest> requests = requests_for(engine);
  const auto among = together(engine, requests);
  if (says_nothing(requests, among))
    return std::string("the engine finds every token as likely as every other: damaged weights");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = engine.generate_and_wait(requests[i]);
    if (!alone) return alone.error();
    if (!among[i]) return among[i].error();
    if (!same(*alone, *among[i]))
      return std::string("the engine gives other bits in a batch than alone");
    std::vector<TokenId> output;
    for (const auto& token : alone->tokens) output.push_back(token.id);
    const auto prefilled = engine.score(requests[i], output);
    if (!prefilled) return prefilled.error();
    if (!same(*alone, *prefilled)) {
      return std::string("the engine gives other bits in one prefill than token by token");
    }
  }
  return std::string();
}

}  // namespace verbatim::replay
