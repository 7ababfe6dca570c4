#pragma once
// Which records a replay is about.

#include "audit/reader.hpp"

#include <string>
#include <vector>

namespace verbatim::replay {

struct Selection {
  std::vector<std::string> ids;
  std::string since, until, model;
  std::uint64_t sample = 0;  ///< 0: all that fit
};

/// The selected records, oldest first. `invalid_input` for a malformed id or time.
///
/// A sample is drawn by the smallest SHA-256("verbatim/sample/v1" || 0x00 || checkpoint || record id): uniform, the
/// same for everyone who has the checkpoint, and not at the choice of who runs it.
[[nodiscard]] Result<std::vector<Uuid>> select(audit::LogReader& reader,
                                               const Selection& selection);

}  // namespace verbatim::replay
