#pragma once
// What a replay may say of a record. Strongest first; docs/replay.md says what each allows to be claimed.

#include "local_engine/activation_fingerprint.hpp"
#include "local_engine/token.hpp"
#include "replay/explanation.hpp"
#include "replay/margins.hpp"
#include "schema/canonical_json.hpp"
#include "schema/error.hpp"
#include "schema/uuid.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::replay {

enum class VerdictKind {
  bitwise,         ///< same profile, same weights, token ids and logits digest equal
  token_exact,     ///< every token is the engine's choice; no logits digest was recorded
  within_margin,   ///< a foreign engine's answer, explained by rounding: only with a calibration
  diverged,        ///< otherwise
  not_replayable,  ///< `reason` says why
  erased,          ///< the contents were erased
  pruned,          ///< its leaves, or those of the hit's origin, were pruned
};

inline constexpr std::array kVerdictKinds = {VerdictKind::bitwise,        VerdictKind::token_exact,
                                             VerdictKind::within_margin,  VerdictKind::diverged,
                                             VerdictKind::not_replayable, VerdictKind::erased,
                                             VerdictKind::pruned};

[[nodiscard]] std::string_view verdict_name(VerdictKind kind);  ///< "BITWISE", ...

/// A token of the answer as the engine saw it. For reports: not part of the verdict's leaf.
struct TracedToken {
  local_engine::TokenId id = 0, best = 0;
  std::string text;  ///< the bytes that it adds
  float margin = 0, deficit = 0;
  bool chosen = true;
};

/// By what a foreign engine's answer was measured: schema/calibration.md.
struct Tolerance {
  std::string calibration_sha256;
  std::string threshold, false_positive_rate;  ///< decimal, as the calibration says
};

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

  /// One word for scripts, and a sentence for people. Empty for BITWISE. Words: `open`, `status`, `not_captured`, `remote`,
  /// `no_output`, `no_tokens`, `not_disclosed`, `weights_missing`, `weights_differ`, `config_differs`,
  /// `tokenizer_differs`, `template_differs`, `weights_unreadable`, `unsupported`, `profile_differs`, `writer_differs`,
  /// `malformed_record`, `range`, `memory`, and for a foreign engine's answers `parameters`, `unseeded`, `tokenization`
  /// (NOT_REPLAYABLE); `prompt`, `token`, `logits`, `text`, `length`, `fingerprint` (DIVERGED); `rounding`
  /// (WITHIN_MARGIN); `erased`, `pruned`.
  std::string reason, detail;
  /// What may have happened, likeliest first, of a record that diverged or that ends too early: `weights`, `prompt` (or
  /// template), `sampling` (its parameters), `edited` (the answer), `truncated`, `rounding` (a near tie). What the
  /// figures exclude is not in it.
  std::vector<std::string> hypotheses;

  std::size_t choice = 0;   ///< that stands for the record: of which the position speaks
  std::size_t choices = 1;  ///< that the record has
  std::optional<std::size_t> position;   ///< output token (or row) where they differ first
  std::optional<std::size_t> character;  ///< byte offset of that token in the recorded text
  std::optional<float> margin, deficit;  ///< in logit units, at that position
  std::optional<local_engine::TokenId> expected, got;  ///< recorded token, engine's choice
  std::optional<Uuid> origin;  ///< for a cache hit: the record that was replayed

  std::string method;  ///< "score" or "decode"
  std::optional<ReplayEngine> engine;
  std::size_t tokens = 0;  ///< output tokens compared
  MarginCounts margins;    ///< of those tokens

  /// A remote endpoint answered, and that it runs this engine's weights is the operator's word (`--engine`).
  bool claimed_weights = false;
  /// Tokens that are not the engine's choice, of a foreign engine's answer.
  std::size_t differing = 0;
  std::optional<Tolerance> tolerance;
  /// Parameters that the request leaves open and that its server set, as the answer shows: "repetition_penalty 1.8, of the
  /// model's generation_config.json". "" if none.
  std::string defaults;

  /// How the recorded activation fingerprint and the engine's activations agree, if the record keeps one.
  std::optional<local_engine::FingerprintAgreement> fingerprint;
  /// Contents that the leaf commits to, that the verdict could have looked at, and that a bundle does not disclose.
  std::vector<std::string> not_looked_at;
  /// The weights that computed it, and judged it, are not those that --engine names for its model.
  bool other_weights_named = false;
  /// What --explain found, each as explanation_json() gives it.
  std::vector<Json> explanations;

  std::optional<std::uint64_t> environment;      ///< index of the recorder's environment leaf
  std::vector<std::string> environment_differs;  ///< facts that are not the same here

  // What follows is in no leaf.
  std::int64_t time_us = 0;           ///< of the request
  double seconds = 0;                 ///< that the engine took
  std::vector<TracedToken> trace;     ///< of `choice`
  std::optional<std::uint64_t> leaf;  ///< the verdict's own, once it is in the log
  /// The two tokens by themselves, special ones by their names.
  std::string expected_text, got_text;
  bool resumed = false;  ///< taken from an earlier run's leaf
};

/// As `verbatim replay --json` prints it.
[[nodiscard]] OrderedJson verdict_json(const Verdict& verdict);

/// The members of a `replay_verdict` leaf (schema/leaf.md): no floats, no timing, so that a second run of the
/// same replay gives the same bytes.
[[nodiscard]] Json verdict_fields(const Verdict& verdict);

/// Whether such a leaf has `detail` too. Other details may quote what the record holds, and a leaf outlives an erasure.
[[nodiscard]] bool leaf_tells_detail(const Verdict& verdict);

/// Reads such a leaf back. `invalid_input` if it is none.
[[nodiscard]] Result<Verdict> verdict_of_leaf(const Json& leaf);

/// How activations agree: as a verdict's leaf and the command line have it, no floats; and in a sentence.
[[nodiscard]] Json fingerprint_json(const local_engine::FingerprintAgreement& found);
[[nodiscard]] std::string fingerprint_text(const local_engine::FingerprintAgreement& found);

/// Hypotheses for people: "other weights, or an edited text".
[[nodiscard]] std::string hypotheses_text(const std::vector<std::string>& hypotheses);

/// The shortest decimal that reads back as the same float; "inf" for infinity.
[[nodiscard]] std::string decimal(float value);
/// The reverse. Nothing if the whole text is no number.
[[nodiscard]] std::optional<float> parsed_decimal(const std::string& text);

/// Of the kept tokens; infinity if there are none.
[[nodiscard]] float smallest_margin(const Verdict& verdict);

/// Higher is worse: the worst choice of a record stands for the record, and of equals the one with the nearest tie.
[[nodiscard]] int badness(VerdictKind kind);

}  // namespace verbatim::replay
