#pragma once
// One recorded choice against what the engine computes for it.

#include "replay/recorded.hpp"
#include "replay/verdict.hpp"

namespace verbatim::replay {

enum class Method {
  score,   ///< prompt and recorded output in one teacher-forced prefill
  decode,  ///< generate again, token by token
};

/// What a verdict says of the engine that gave it.
[[nodiscard]] ReplayEngine describe(const local_engine::Engine& engine);

/// An end of sequence of this engine's model?
[[nodiscard]] bool is_end(const local_engine::Engine& engine, local_engine::TokenId id);

/// Puts what the engine saw of each token into `trace`, and counts it in `margins`.
void keep_trace(const local_engine::GenerationResult& result, Verdict& verdict);

/// The texts of the recorded and of the chosen token, for people.
void name_tokens(const local_engine::Engine& engine, Verdict& verdict);

/// Adds how the recorded fingerprint and the engine's activations agree, if there is one and the answer has as many
/// tokens: one choice after another, of which the worst chunk's figures stay.
void check_fingerprint(const RecordedChoice& recorded, const local_engine::GenerationResult& result,
                       Verdict& verdict);

/// Fills kind, reason, detail, position, character, margin, deficit, expected, got, tokens, margins, fingerprint
/// and trace of `verdict`.
/// Without a recorded logits digest the best that can be said is TOKEN_EXACT. An error of the engine (`out_of_range`, an
/// id it does not have) becomes NOT_REPLAYABLE.
void compare_choice(local_engine::Engine& engine, const RecordedChoice& recorded, Method method,
                    Verdict& verdict);

}  // namespace verbatim::replay
