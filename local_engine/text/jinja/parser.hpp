#pragma once
// Tokens to a tree, with Jinja 3.1's grammar.

#include "local_engine/text/jinja/ast.hpp"

#include <string>

namespace verbatim::local_engine::jinja {

/// `source` is valid UTF-8. Throws Fault: `invalid_input`, or `unsupported` with the name of a statement that is not
/// supported (block, extends, include, import, from, autoescape, do, trans, debug).
[[nodiscard]] Template parse(std::string source);

/// "line 3, column 7" of a position, both from 1, columns in characters.
[[nodiscard]] std::string describe(const std::string& source, Position at);

}  // namespace verbatim::local_engine::jinja
