#pragma once
// A verdict as a signed statement: in-toto Statement v1 with the test-result v0.1 predicate, in DSSE, in a Sigstore
// bundle v0.3. Format: schema/replay-statement.md.

#include "audit/log_key.hpp"
#include "audit/records.hpp"
#include "replay/verdict.hpp"

#include <string>

namespace verbatim::replay {

/// The statement, canonical JSON. The subject is the response leaf (its RFC 6962 leaf hash), so that anyone who
/// holds the leaf can match it. PASSED: BITWISE or TOKEN_EXACT; WARNED: WITHIN_MARGIN, NOT_REPLAYABLE, ERASED;
/// FAILED: DIVERGED.
[[nodiscard]] Result<std::string> statement(audit::RecordSource& reader, const Verdict& verdict);

/// The statement signed by `key` (audit::load_log_key), as a Sigstore bundle.
[[nodiscard]] Result<std::string> signed_statement(audit::RecordSource& reader,
                                                   const Verdict& verdict, audit::LogKey& key);

}  // namespace verbatim::replay
