#pragma once
// Whether a log's database has exactly the tables, indexes and triggers that verbatim makes.

#include "audit/database.hpp"
#include "audit/findings.hpp"

#include <string_view>

namespace verbatim::audit {

/// A log's. Problems: `trigger_missing`, `schema` (a table, index or trigger that is missing, changed, or not ours).
Result<void> check_schema(Database& db, Findings& findings);

/// `tampered`, naming the first difference, if the database has not exactly what the script makes. Asked for before anything
/// is written: a trigger that somebody added can have a statement do nothing, and say that it is done.
[[nodiscard]] Result<void> require_schema(Database& db, std::string_view script);

/// SQLite's own check of everything but the contents (which are read anyway): pages, order, indexes, CHECKs.
/// Problem: `database`.
Result<void> check_integrity(Database& db, Findings& findings);

}  // namespace verbatim::audit
