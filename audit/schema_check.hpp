#pragma once
// Whether a log's database has exactly the tables, indexes and triggers that verbatim makes.

#include "audit/database.hpp"
#include "audit/findings.hpp"

namespace verbatim::audit {

/// Problems: `trigger_missing`, `schema` (a table, index or trigger that is missing, changed, or not ours).
Result<void> check_schema(Database& db, Findings& findings);

/// SQLite's own check of everything but the contents (which are read anyway): pages, order, indexes, CHECKs.
/// Problem: `database`.
Result<void> check_integrity(Database& db, Findings& findings);

}  // namespace verbatim::audit
