#pragma once
// The migrations of log.db (schema/sql/), each applied once and never edited.

#include "audit/queries.hpp"

#include <kLogMigration0001.hpp>
#include <kLogMigration0002.hpp>
#include <kLogMigration0003.hpp>
#include <kLogMigration0004.hpp>
#include <kLogMigration0005.hpp>
#include <kLogMigration0006.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::audit {

inline constexpr std::array kLogMigrations = {kLogMigration0001, kLogMigration0002,
                                              kLogMigration0003, kLogMigration0004,
                                              kLogMigration0005, kLogMigration0006};

static_assert(kLogMigrations.size() == static_cast<std::size_t>(kLogVersion));

/// The SQL that brings a log of format `from` (0: an empty file) to format `to`.
[[nodiscard]] inline std::string log_migrations(std::int64_t from, std::int64_t to) {
  std::string script;
  for (std::int64_t version = from; version < to; ++version) {
    script += kLogMigrations[static_cast<std::size_t>(version)];
  }
  return script;
}

}  // namespace verbatim::audit
