#pragma once
// Signed statements: an in-toto Statement v1 in a DSSE v1 envelope in a Sigstore bundle v0.3, by the log's key.
//
//   PAE = "DSSEv1" SP len(type) SP type SP len(payload) SP payload       what is signed; lengths in bytes
//
// The bundle names its key by a hint (the vkey), holds no certificate and no transparency log entry.

#include "audit/log_key.hpp"
#include "schema/canonical_json.hpp"

#include <string>
#include <string_view>

namespace verbatim::audit {

inline constexpr std::string_view kInTotoType = "application/vnd.in-toto+json";

/// DSSE's pre-authentication encoding.
[[nodiscard]] std::string dsse_pae(std::string_view type, std::string_view payload);

/// The bytes of a member in base64: padded, in the standard or the URL-safe alphabet, as DSSE allows. `invalid_input`.
[[nodiscard]] Result<ByteVector> from_dsse_base64(std::string text);

/// What is said of a bundle of evidence (schema/evidence.md): that `manifest`, whose members these are, is about the tree
/// that it names.
[[nodiscard]] Json manifest_statement(std::string_view manifest, const Json& members);

/// Signs a statement (the exact bytes) and returns the bundle, canonical JSON. Errors are LogKey::sign()'s.
[[nodiscard]] Result<std::string> sign_statement(std::string_view statement, LogKey& key);

/// The statement in a bundle that `key` signed: the very bytes. Tolerates members it does not know.
/// `invalid_input` (no such bundle, or more than one signature), `tampered` (the signature does not match).
[[nodiscard]] Result<std::string> open_statement(std::string_view bundle, const VerifierKey& key);

}  // namespace verbatim::audit
