#pragma once
// What a replay may say of a record. Strongest first; docs/replay.md says what each allows to be claimed.

#include "local_engine/token.hpp"
#include "schema/canonical_json.hpp"
#include "schema/uuid.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::replay {

enum class VerdictKind {
  bitwise,         ///< same profile, same weights, token ids and logits digest equal
  token_exact,     ///< every token is the engine's choice; no logits digest was recorded
  within_margin,   ///< only with a calibration, which this version cannot make: never given
  diverged,        ///< otherwise
  not_replayable,  ///< `reason` says why
  erased,          ///< the contents were erased
};

[[nodiscard]] std::string_view verdict_name(VerdictKind kind);  ///< "BITWISE", ...

/// The engine that gave the verdict.
struct ReplayEngine {
  std::string profile, backend, build, weights_sha256;
};

struct Verdict {
  Uuid record;
  std::uint64_t request_index = 0;
  std::optional<std::uint64_t> response_index;
  std::string model;
  VerdictKind kind = VerdictKind::not_replayable;

  /// One word for scripts, and a sentence for people. Empty for BITWISE. Words: `open`, `status`,
  /// `not_captured`, `remote`,
  /// `no_output`, `no_tokens`, `weights_missing`, `weights_differ`, `profile_differs`, `unseeded`, `malformed_record`,
  /// `range` (NOT_REPLAYABLE); `prompt`, `token`, `logits`, `text`, `length` (DIVERGED).
  std::string reason, detail;

  std::size_t choice = 0;                ///< of which the position speaks
  std::optional<std::size_t> position;   ///< output token (or row) where they differ first
  std::optional<std::size_t> character;  ///< byte offset of that token in the recorded text
  std::optional<float> margin, deficit;  ///< in logit units, at that position
  std::optional<local_engine::TokenId> expected, got;  ///< recorded token, engine's choice
  std::optional<Uuid> origin;  ///< for a cache hit: the record that was replayed

  std::string method;  ///< "score" or "decode"
  std::optional<ReplayEngine> engine;
  std::size_t tokens = 0;  ///< output tokens compared
  double seconds = 0;
};

/// As `verbatim replay --json` prints it.
[[nodiscard]] OrderedJson verdict_json(const Verdict& verdict);

/// The members of a `replay_verdict` leaf (schema/leaf.md): no floats, no timing, so that a second run of the
/// same replay gives the same bytes.
[[nodiscard]] Json verdict_fields(const Verdict& verdict);

}  // namespace verbatim::replay
