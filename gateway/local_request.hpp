#pragma once
// A request to a local model, understood: prompt ids and sampling, or the reason why not. What
// would change the answer and is not supported is refused by name, never ignored.

#include "gateway/dialect.hpp"
#include "local_engine/engine.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

struct LocalQuestion {
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool echo = false;       ///< completions: the prompt's text before the answer's
  std::uint64_t seed = 0;  ///< the one in use: the client's, or one made here
  std::string model;
  std::vector<std::string> prompt_texts;  ///< of each prompt, for echo
  /// One a choice: prompts in order, and for each its n choices.
  std::vector<local_engine::GenerationRequest> choices;
  std::size_t prompt_tokens = 0;  ///< of all prompts, each counted once
  std::int64_t now_us = 0;        ///< what the chat template saw of the time
};

/// `api` is openai_chat, openai_completions or anthropic_messages. `now_us` is what the chat
/// template may see of the time; `fresh_seed` is used if the request has none. `invalid_input` or
/// `unsupported`: the message names the parameter.
[[nodiscard]] Result<LocalQuestion> read_local_request(Api api, std::string_view body,
                                                       const local_engine::Engine& engine,
                                                       std::int64_t now_us,
                                                       std::uint64_t fresh_seed);

}  // namespace verbatim::gateway
