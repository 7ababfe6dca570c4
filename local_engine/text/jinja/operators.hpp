#pragma once
// Python's operators on values.

#include "local_engine/text/jinja/ast.hpp"
#include "local_engine/text/jinja/interpreter.hpp"
#include "local_engine/text/jinja/value.hpp"

#include <optional>

namespace verbatim::local_engine::jinja {

/// left + right and so on, with Python's rules for its types; integers beyond 64 bits are a Fault.
[[nodiscard]] Value arithmetic(Interpreter& interpreter, Op op, const Value& left,
                               const Value& right);
[[nodiscard]] Value negate(const Value& value);
/// Any comparison operator, `in` and `not in` included.
[[nodiscard]] bool compare(Interpreter& interpreter, Op op, const Value& left, const Value& right);
/// value[start:stop:step], each integer or absent.
[[nodiscard]] Value slice(Interpreter& interpreter, const Value& value, const Value& start,
                          const Value& stop, const Value& step);
/// left % right for a text on the left.
[[nodiscard]] std::string format_percent(std::string_view format, const Value& arguments);
/// str.format().
[[nodiscard]] std::string format_braces(Interpreter& interpreter, std::string_view format,
                                        const CallArguments& arguments);
/// `&`, `<`, `>`, `"` and `'` as markupsafe writes them.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace verbatim::local_engine::jinja
