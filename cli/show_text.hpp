#pragma once
// `log show` for people: the leaves of a record member by member, and what was said as it was said.

#include "schema/canonical_json.hpp"

#include <ostream>

namespace verbatim::cli {

/// A text from outside on one line of a terminal: control characters, line ends among them, are question marks.
[[nodiscard]] std::string one_line(std::string text);

/// `shown` is what `log show --json` prints. Control characters other than line ends and tabs are shown as question
/// marks: what was recorded must not steer the terminal.
void print_shown(std::ostream& out, const OrderedJson& shown);

}  // namespace verbatim::cli
