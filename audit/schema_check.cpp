#include "audit/schema_check.hpp"

#include "audit/migrations.hpp"
#include "audit/queries.hpp"

#include <map>

namespace verbatim::audit {

namespace {

using Schema = std::map<std::pair<std::string, std::string>, std::string>;  // (type, name) -> SQL

Result<Schema> schema_of(Database& db) {
  Schema schema;
  Statement statement(db, "SELECT type, name, coalesce(sql, '') FROM sqlite_schema");
  Rows rows = statement.run();
  for (;;) {
    const auto row = rows.next();
    if (!row) return row.error();
    if (!*row) return schema;
    schema.emplace(std::pair(rows.text(0), rows.text(1)), rows.text(2));
  }
}

Result<Schema> schema_made_by(std::string_view script) {
  auto db = Database::open(":memory:", Database::Mode::create);
  if (!db) return db.error();
  if (auto made = db->execute(script); !made) return made.error();
  return schema_of(*db);
}

Result<void> compare_schema(Database& db, std::string_view script, Findings& findings) {
  const auto expected = schema_made_by(script);
  if (!expected) return expected.error();
  auto found = schema_of(db);
  if (!found) {
    if (found.error().code != Errc::tampered) return found.error();
    findings.tampered("database", found.error().what);
    return {};
  }
  for (const auto& [key, sql] : *expected) {
    const auto& [type, name] = key;
    const auto there = found->find(key);
    if (there == found->end()) {
      findings.tampered(type == "trigger" ? "trigger_missing" : "schema",
                        "the " + type + " " + name + " is missing");
    } else if (there->second != sql) {
      findings.tampered("schema", "the " + type + " " + name + " was changed");
    }
    found->erase(key);
  }
  for (const auto& [key, sql] : *found) {
    findings.tampered("schema", "the " + key.first + " " + key.second + " is not verbatim's");
  }
  return {};
}

}  // namespace

Result<void> check_schema(Database& db, Findings& findings) {
  const auto version = db.integer("PRAGMA user_version");
  if (!version) return version.error();
  // Of a number that this version does not know: the newest.
  const bool known = *version >= 1 && *version <= kLogVersion;
  return compare_schema(db, log_migrations(0, known ? *version : kLogVersion), findings);
}

Result<void> require_schema(Database& db, std::string_view script) {
  Findings findings;
  if (auto compared = compare_schema(db, script, findings); !compared) return compared;
  const std::vector<Problem> problems = findings.take_problems();
  if (problems.empty()) return {};
  return Error{Errc::tampered, problems.front().detail, db.path().string(),
               "nothing was changed; restore a backup, or take back what was done to the tables"};
}

Result<void> check_integrity(Database& db, Findings& findings) {
  const auto run = [&](Rows rows) -> Result<void> {
    for (;;) {
      const auto row = rows.next();
      if (!row) {
        if (row.error().code != Errc::tampered) return row.error();
        findings.tampered("database", row.error().what);
        return {};
      }
      if (!*row) return {};
      if (rows.text(0) != "ok") findings.tampered("database", rows.text(0));
    }
  };
  Statement leaf(db, "PRAGMA integrity_check('leaf')");
  Statement checkpoint(db, "PRAGMA integrity_check('checkpoint')");
  Statement canonical(db, "PRAGMA integrity_check('canonical_output')");
  for (Statement* statement : {&leaf, &checkpoint, &canonical}) {
    if (auto done = run(statement->run()); !done) return done;
  }
  return {};
}

}  // namespace verbatim::audit
