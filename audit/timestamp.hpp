#pragma once
// Time stamps in the log: the `timestamp` leaf (schema/leaf.md), which says when, by another clock, a checkpoint was there.
//
// The imprint is SHA-256 over the checkpoint's exact note, as the log signed it: text, empty line, the log's own lines.

#include "audit/checkpoint.hpp"
#include "audit/log.hpp"
#include "audit/timestamp_token.hpp"

#include <string>

namespace verbatim::audit {

/// A stamped checkpoint.
struct Timestamp {
  std::string note;  ///< exactly as stamped
  Checkpoint head;   ///< what the note says; its signature is not verified here
  TimestampToken token;
};

/// `tampered` if the token is not of this note; `invalid_input` if that is no checkpoint.
[[nodiscard]] Result<Timestamp> stamped(std::string note, TimestampToken token);
[[nodiscard]] LeafDraft timestamp_draft(const Timestamp& timestamp, const std::string& actor);
/// Reads a `timestamp` leaf. `tampered` or `invalid_input` unless its token is of its note, and every other member says
/// what those two say.
[[nodiscard]] Result<Timestamp> read_timestamp(const Json& leaf);

}  // namespace verbatim::audit
