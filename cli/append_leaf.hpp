#pragma once
// What a command does with a log is itself a leaf of it.

#include "audit/log.hpp"
#include "cli/command.hpp"

namespace verbatim::cli {

/// Appends through the process that holds the log, or opens the log for it; durable when it returns. Errors are those of
/// open_appender() and append_and_wait().
[[nodiscard]] Result<audit::Appended> append_leaf(const Context& context, audit::LeafDraft draft);

}  // namespace verbatim::cli
