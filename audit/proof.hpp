#pragma once
// Receipts: a leaf's inclusion proof and the checkpoint it leads to, in one text (C2SP tlog-proof).
//
//   c2sp.org/tlog-proof@v1
//   [extra <base64>]             not authenticated
//   index <decimal>
//   <base64 hash>                leaf's sibling first; one a line
//   <empty line>
//   <checkpoint, a signed note>

#include "audit/key_chain.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

struct TlogProof {
  std::string extra;  ///< raw bytes; "" for none. Not authenticated: never trust it
  std::uint64_t index = 0;
  std::vector<Digest> hashes;  ///< at most 63
  std::string checkpoint;      ///< signed note
};

[[nodiscard]] std::string format_tlog_proof(const TlogProof& proof);
/// `invalid_input` on anything but the exact form.
[[nodiscard]] Result<TlogProof> parse_tlog_proof(std::string_view text);
/// Checks the checkpoint's signature, and that `leaf` is at the proof's index in its tree. Returns the checkpoint.
/// Errors: as open_checkpoint(); `tampered` if the proof does not lead to the root.
[[nodiscard]] Result<Checkpoint> verify_tlog_proof(const TlogProof& proof, Bytes leaf,
                                                   const KeyChain& keys);

}  // namespace verbatim::audit
