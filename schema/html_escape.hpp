#pragma once
// Text in HTML, also between the quotes of an attribute.

#include <string>
#include <string_view>

namespace verbatim {

/// `&`, `<`, `>` and both quotes as character references; all other bytes as they are. `quote`: how `"` is written, of
/// which HTML knows more than one way.
[[nodiscard]] std::string escape_html(std::string_view text, std::string_view quote = "&quot;");

}  // namespace verbatim
