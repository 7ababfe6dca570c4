#pragma once
// Signed tree heads (C2SP tlog-checkpoint v1.0.0).
//
//   <origin>
//   <size, decimal>
//   <root, base64>

#include "audit/note.hpp"
#include "schema/digest.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::audit {

struct Checkpoint {
  std::string origin;
  std::uint64_t size = 0;
  Digest root;
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// The text that is signed. No extension lines.
[[nodiscard]] std::string checkpoint_text(const Checkpoint& checkpoint);

/// `invalid_input` on anything but the exact form: "007", "+7" and " 7" are no sizes. Non-empty extension lines are
/// allowed and ignored.
[[nodiscard]] Result<Checkpoint> parse_checkpoint_text(std::string_view text);

/// Opens the note with the log's key and reads it. Errors as open_note(); `invalid_input` if it is no checkpoint.
[[nodiscard]] Result<Checkpoint> open_checkpoint(std::string_view note, const VerifierKey& key);

}  // namespace verbatim::audit
