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

/// The tables of a format; those of the newest for a number that this version does not know.
Result<Schema> expected_schema(std::int64_t version) {
  auto db = Database::open(":memory:", Database::Mode::create);
  if (!db) return db.error();
  const bool known = version >= 1 && version <= kLogVersion;
  auto made = db->execute(log_migrations(0, known ? version : kLogVersion));
  if (!made) return made.error();
  return schema_of(*db);
}

}  // namespace

Result<void> check_schema(Database& db, Findings& findings) {
  const auto version = db.integer("PRAGMA user_version");
  if (!version) return version.error();
  const auto expected = expected_schema(*version);
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
