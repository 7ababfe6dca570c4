#pragma once
// Template source to tokens, with Jinja's white space rules under Hugging Face's settings: trim_blocks (the newline
// after a block tag goes), lstrip_blocks (the spaces before one at the start of its line go), `-` and `+` at a
// tag's inner side, and no newline at the end of the template.

#include "local_engine/text/jinja/fault.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine::jinja {

enum class TokenKind {
  data,  ///< text between tags, as it is printed
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,    ///< text: the value, escapes resolved
  integer,   ///< text: decimal, hexadecimal, ... digits without underscores
  floating,  ///< text: digits without underscores
  op,        ///< text: the operator
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;
  Position at = 0;
};

/// Newlines as Jinja sees them: "\r\n" and "\r" become "\n", and one at the very end is dropped.
[[nodiscard]] std::string normalize_source(std::string_view source);

/// The last token is `end`. `source` is normalized and valid UTF-8. Throws Fault.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace verbatim::local_engine::jinja
