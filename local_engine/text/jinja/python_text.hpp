#pragma once
// Strings as Python sees them: by code points, with Unicode's white space and case. All texts are valid UTF-8.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine::jinja {

/// str.isspace(): White_Space and the four information separators.
[[nodiscard]] bool is_python_space(char32_t value);

[[nodiscard]] std::size_t length(std::string_view text);  ///< in code points

/// The code points, each as text.
[[nodiscard]] std::vector<std::string_view> split_characters(std::string_view text);

// strip() and the like; the second form strips any of the characters in `set`.
[[nodiscard]] std::string_view strip_left(std::string_view text);
[[nodiscard]] std::string_view strip_right(std::string_view text);
[[nodiscard]] std::string_view strip_left(std::string_view text, std::string_view set);
[[nodiscard]] std::string_view strip_right(std::string_view text, std::string_view set);

/// str.split(): by white space without `separator` (which must not be empty), at most `limit` cuts if it is not
/// negative. rsplit() cuts from the right.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text,
                                                  std::optional<std::string_view> separator,
                                                  std::int64_t limit);
[[nodiscard]] std::vector<std::string_view> split_from_right(
    std::string_view text, std::optional<std::string_view> separator, std::int64_t limit);
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

[[nodiscard]] std::string to_lower(std::string_view text);
[[nodiscard]] std::string to_upper(std::string_view text);
[[nodiscard]] std::string capitalize(std::string_view text);
[[nodiscard]] std::string title(std::string_view text);  ///< str.title()
[[nodiscard]] std::string swap_case(std::string_view text);

[[nodiscard]] bool is_cased(char32_t value);
[[nodiscard]] bool is_upper(char32_t value);
[[nodiscard]] bool is_lower(char32_t value);
[[nodiscard]] bool is_letter(char32_t value);     ///< str.isalpha() of one character
[[nodiscard]] bool is_decimal(char32_t value);    ///< general category Nd
[[nodiscard]] bool is_printable(char32_t value);  ///< what repr() does not escape

/// str.replace(); `limit` negative: all.
[[nodiscard]] std::string replace(std::string_view text, std::string_view from, std::string_view to,
                                  std::int64_t limit);

/// str.count()
[[nodiscard]] std::size_t count_matches(std::string_view text, std::string_view what);

/// float.__repr__
[[nodiscard]] std::string float_repr(double value);
/// str.__repr__
[[nodiscard]] std::string string_repr(std::string_view text);

/// int() and float() of a text: surrounding white space, signs, underscores between digits, "inf" and "nan" for floats.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text, int base);
[[nodiscard]] std::optional<double> parse_float(std::string_view text);

}  // namespace verbatim::local_engine::jinja
