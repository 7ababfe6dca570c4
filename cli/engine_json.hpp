#pragma once
// The engine's results as the command line prints them.

#include "local_engine/engine.hpp"
#include "schema/canonical_json.hpp"

namespace verbatim::cli {

/// The double whose shortest decimal is the shortest decimal of the float: prints -0.243743, not
/// -0.24374300241470337, and reads back to the same float.
[[nodiscard]] double shortest(float value);

/// `{"text","prompt_token_ids","token_ids","finish_reason","logits_digest","numerics_profile","backend",
/// "tokens":[...],"timing":{...}}` as cli.md has it. `text` is absent when the model has no tokenizer;
/// `margin` and `deficit` are null where they have no bound (token.hpp's +infinity).
[[nodiscard]] OrderedJson result_json(const local_engine::Engine& engine,
                                      const local_engine::GenerationRequest& request,
                                      const local_engine::GenerationResult& result);

}  // namespace verbatim::cli
