#pragma once
// `log show` for people: the leaves of a record member by member, and what was said as it was said.

#include "schema/canonical_json.hpp"

#include <ostream>
#include <string>
#include <string_view>

namespace verbatim::cli {

/// A text from outside on one line of a terminal: control characters, line ends among them, and what is not UTF-8 are
/// question marks. Everything printed for people goes through this that a log, a bundle, a model, a server or the command
/// line says.
[[nodiscard]] std::string one_line(std::string_view text);

/// The same, filled up to `width` bytes, and two spaces: a cell of a table.
[[nodiscard]] std::string column(std::string_view text, std::size_t width);

/// The same for a text that is shown by itself, at the end: its line ends and tabs stay.
[[nodiscard]] std::string many_lines(std::string_view text);

/// `shown` is what `log show --json` prints. Contents stand behind a frame, "  | " before each of their lines: what was
/// recorded can neither steer the terminal nor look like a leaf.
void print_shown(std::ostream& out, const OrderedJson& shown);

}  // namespace verbatim::cli
