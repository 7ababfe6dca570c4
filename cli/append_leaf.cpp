#include "cli/append_leaf.hpp"

#include "schema/clock.hpp"

#include <utility>

namespace verbatim::cli {

Result<audit::Appended> append_leaf(const Context& context, audit::LeafDraft draft) {
  static const SystemClock clock;
  const auto appender = audit::open_appender(context.data, clock, warn);
  if (!appender) return appender.error();
  return (*appender)->append_and_wait(std::move(draft));
}

}  // namespace verbatim::cli
