#pragma once
// The regular expressions and plain strings by which tokenizers split and replace text.
//
// tokenizer.json is written for Oniguruma; PCRE2 runs it here. The two differ in what \s, \w, \h, \v, \p{Han},
// ^, $ and x{n,m}+ mean, so the pattern is first rewritten (pattern_syntax.cpp) into one that means in PCRE2
// what the original means in Oniguruma. What cannot be rewritten is refused by name.

#include "local_engine/text/fault.hpp"
#include "schema/canonical_json.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::local_engine {

/// Bytes [start, end) of a text.
struct Span {
  std::size_t start = 0;
  std::size_t end = 0;
};

/// The PCRE2 form of an Oniguruma pattern. Throws Fault (`unsupported`, with the construct's name).
[[nodiscard]] std::string translate_pattern(std::string_view oniguruma);

/// Immutable; may be used from any thread.
class Pattern {
 public:
  /// Throws Fault: `unsupported` for a construct that is not rewritten, `invalid_input` if malformed.
  [[nodiscard]] static Pattern regex(std::string_view oniguruma);
  /// Matches the text itself. Not empty.
  [[nodiscard]] static Pattern literal(std::string text);

  /// Appends the matches, leftmost first, none overlapping. `text` is generalized UTF-8 (utf8.hpp). Throws
  /// Fault when the pattern backtracks beyond its limit, which the patterns of known models never do.
  void find_all(std::string_view text, std::vector<Span>& out) const;

 private:
  struct Code;
  Pattern() = default;
  std::shared_ptr<const Code> code_;  // null for a literal; shared by copies of the pattern
  std::string literal_;
};

/// A "pattern" member of tokenizer.json: {"Regex": ...} or {"String": ...}.
[[nodiscard]] Pattern read_pattern(const Json& json);

}  // namespace verbatim::local_engine
