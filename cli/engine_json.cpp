#include "cli/engine_json.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace verbatim::cli {

double shortest(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double wide = 0;
  std::from_chars(text.data(), end, wide);
  return wide;
}

namespace {

/// JSON has no infinity: null says that there is no bound, since a filter left no runner-up, or
/// removed the token in question.
OrderedJson bounded(float logits) {
  return std::isinf(logits) ? OrderedJson() : OrderedJson(shortest(logits));
}

OrderedJson token_json(const local_engine::TokenInfo& token, bool with_text) {
  OrderedJson top = OrderedJson::array();
  for (const auto& [id, logprob] : token.top) top.push_back({id, shortest(logprob)});
  OrderedJson json;
  json["id"] = token.id;
  if (with_text) json["text"] = token.text;
  json["logprob"] = shortest(token.logprob);
  json["margin"] = bounded(token.margin);
  json["deficit"] = bounded(token.deficit);
  json["chosen"] = token.chosen;
  json["best"] = token.best;
  json["row_digest8"] = to_hex(token.row_digest8);
  json["top"] = std::move(top);
  return json;
}

const char* finish_name(local_engine::FinishReason reason) {
  switch (reason) {
    case local_engine::FinishReason::stop:
      return "stop";
    case local_engine::FinishReason::length:
      return "length";
    case local_engine::FinishReason::cancelled:
      return "cancelled";
  }
  return "stop";
}

double rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

OrderedJson result_json(const local_engine::Engine& engine,
                        const local_engine::GenerationRequest& request,
                        const local_engine::GenerationResult& result) {
  const bool with_text = engine.tokenizer() != nullptr;
  OrderedJson ids = OrderedJson::array();
  OrderedJson tokens = OrderedJson::array();
  for (const auto& token : result.tokens) {
    ids.push_back(token.id);
    tokens.push_back(token_json(token, with_text));
  }
  OrderedJson json;
  if (with_text) json["text"] = result.text;
  json["prompt_token_ids"] = request.prompt_ids;
  json["token_ids"] = std::move(ids);
  json["finish_reason"] = finish_name(result.finish);
  json["logits_digest"] = result.logits_digest.hex();
  json["weights_sha256"] = engine.fingerprint().weights_sha256.hex();
  json["sampling"] = {{"temperature", request.sampling.temperature},
                      {"seed", std::to_string(request.sampling.seed)},
                      {"top_k", request.sampling.top_k},
                      {"top_p", request.sampling.top_p},
                      {"min_p", request.sampling.min_p}};
  json["numerics_profile"] = engine.profile();
  std::string backends;
  for (const auto& name : result.backends) backends += (backends.empty() ? "" : ",") + name;
  json["backend"] = backends.empty() ? engine.backend() : backends;
  json["tokens"] = std::move(tokens);
  json["timing"] = {
      {"prefill_tokens_per_s",
       rate(result.prompt_tokens - result.cached_prompt_tokens, result.prefill_seconds)},
      {"decode_tokens_per_s", rate(result.tokens.size(), result.decode_seconds)}};
  return json;
}

}  // namespace verbatim::cli
