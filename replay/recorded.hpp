#pragma once
// A recorded exchange, read back from the log and checked for sense: what a replay starts from.

#include "audit/records.hpp"
#include "local_engine/engine.hpp"

#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// One choice of an answer that the local engine gave: schema/leaf.md, `response.tokens`.
struct RecordedChoice {
  local_engine::GenerationRequest request;        ///< prompt ids, sampling, ignore_eos
  std::vector<local_engine::TokenId> output_ids;  ///< the end-of-sequence token included
  std::vector<std::string> row_digest8;  ///< 16 hexadecimal digits each; as many as output ids
  std::string finish;
  std::string logits_digest;  ///< "" if none was recorded
  /// What `response.fingerprint` has of it, if there is one.
  std::optional<std::vector<local_engine::FingerprintChunk>> fingerprint;
};

/// An exchange's two leaves. Views of what the log holds, so nothing in it is trusted to be well formed.
struct RecordedLeaves {
  audit::StoredLeaf request;
  std::optional<audit::StoredLeaf> response;  ///< absent while the exchange is open
};

/// `not_found`: no such record, or it is not an exchange.
[[nodiscard]] Result<RecordedLeaves> read_leaves(audit::RecordSource& reader, const Uuid& id);

/// The exchange whose answer was computed: of a cache hit its origin, else the same. Nothing if it is not there, or open.
[[nodiscard]] std::optional<RecordedLeaves> computed_by(audit::RecordSource& reader,
                                                        const RecordedLeaves& asked);

/// What keeps an exchange from being computed again though it was recorded as its rules said: its capture level, or what was
/// taken out of it. "" if nothing does. Both are closed.
[[nodiscard]] std::string what_was_not_captured(const RecordedLeaves& asked,
                                                const RecordedLeaves& computed);

/// The member at a path of names, as text; "" if it is absent or no string.
[[nodiscard]] std::string text_at(const Json& leaf, std::initializer_list<const char*> path);

/// The member `time` of a leaf, Unix microseconds; 0 if it is absent or no time.
[[nodiscard]] std::int64_t time_at(const Json& leaf);

/// What the engine was recorded to have computed for one answer.
struct RecordedTokens {
  std::vector<RecordedChoice> choices;  ///< at least one
  std::int64_t now_us = 0;              ///< what the chat template saw of the time
};

/// Parses `response.tokens`. `invalid_input` says which member is missing or wrong.
[[nodiscard]] Result<RecordedTokens> parse_tokens(std::string_view tokens_json);

}  // namespace verbatim::replay
