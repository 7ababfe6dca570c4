#pragma once
// Changing the key that signs the log: rotation with an overlap, and its end.
//
// Both are asked for by appending a draft, through Appender::append_and_wait(): the process that holds the log makes the
// rest of the leaf, and does what goes with it. Once that returns, the leaf and the keys are durable.

#include "audit/log.hpp"

#include <cstdint>
#include <string>

namespace verbatim::audit {

class BatchWriter;

/// A new key signs from this leaf on, and the one so far beside it. `to` says where it is: "file" for a seed that is made in
/// the data folder, a pkcs11: URI, which the process that holds the log opens; "" is "file" where the one so far is a
/// seed too, and `invalid_input` where that is in a token. `unavailable`: the last rotation's overlap has not ended.
/// `invalid_input`: no reason, or a long one. Errors of the new key are new_key()'s (audit/key_file.hpp).
[[nodiscard]] LeafDraft rotate_key(const std::string& reason, const std::string& actor,
                                   const std::string& to = "");
/// The older key signs no more. A seed is destroyed; what is in a token stays there. `unavailable`: there is only one.
[[nodiscard]] LeafDraft retire_key(const std::string& reason, const std::string& actor);

/// True for a draft that is one of the two.
[[nodiscard]] bool changes_key(const LeafDraft& draft);
/// Does what the draft asks for. On the writer's thread.
[[nodiscard]] Result<Appended> change_key(BatchWriter& writer, LeafDraft draft, const Uuid& id,
                                          std::int64_t now_us);

}  // namespace verbatim::audit
