// The readers of JSON: all of them take the same texts, and canonical JSON is its own canonical form.

#include "gateway/json_scan.hpp"
#include "schema/bytes.hpp"
#include "schema/canonical_json.hpp"
#include "schema/ordered_json.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

/// What can be promised of numbers that JSON has and doubles or 64 bits do not: canonicalize() takes more of them.
bool has_number_beyond(std::string_view problem) {
  return problem.find("beyond the doubles") != std::string_view::npos;
}

void check_canonical(std::string_view text, Numbers numbers, bool is_read) {
  const auto once = canonicalize(text, numbers);
  if (!once) {
    VERBATIM_CHECK(!once.error().what.empty());
    VERBATIM_CHECK(!is_read || has_number_beyond(once.error().what));
    return;
  }
  VERBATIM_CHECK(is_utf8(*once));
  VERBATIM_CHECK(gateway::is_json(*once));
  const auto twice = canonicalize(*once, numbers);
  VERBATIM_CHECK(twice.has_value());
  VERBATIM_CHECK(*twice == *once);
  // A bound on values is met exactly.
  VERBATIM_CHECK(!canonicalize(text, numbers, 0));
}

void run(std::string_view text) {
  const auto value = parse_json(text);
  const auto ordered = parse_ordered_json(text);
  VERBATIM_CHECK(value.has_value() == ordered.has_value());
  check_canonical(text, Numbers::ecmascript, value.has_value());
  check_canonical(text, Numbers::literal, value.has_value());
  if (!value) {
    VERBATIM_CHECK(!value.error().what.empty());
    return;
  }
  VERBATIM_CHECK(gateway::is_json(text));
  const std::string printed = value->dump();
  const auto again = parse_json(printed);
  VERBATIM_CHECK(again.has_value());
  VERBATIM_CHECK(again->dump() == printed);
  // The order is all that the two differ in.
  const auto sorted = parse_json(ordered->dump());
  VERBATIM_CHECK(sorted.has_value());
  VERBATIM_CHECK(sorted->dump() == printed);
}

std::vector<std::string> seeds() {
  return {
      R"({"b":[1,-0,1.5e-7,1E400,18446744073709551615,-9223372036854775808],"a":{"c":null,"d":true}})",
      R"(["\ud83d\ude00","\u0000\u001f\u2028","\"\\\/\b\f\n\r\t",""," "])",
      "{\"\xF0\x9F\x98\x80\":1,\"\xEF\xBC\xA1\":2,\"\xC3\xA9\":3}",
      R"([[[[[[[[[[{"x":[]}]]]]]]]]]])",
      " 333333333.33333329 ",
      R"({"a":1,"a":2})",
      "\"\\ud800\"",
      "[0.0000001,1e21,4.35,-1e-400,9007199254740993]",
  };
}

const Registration kJson({"json",
                          run,
                          seeds,
                          {"\\u", "\\ud800", "\\udc00", "e+", "E-", "null", "true", "false",
                           "\":", "[[[[[[[[", "]]]]]]]]", "{\"a\":", "1e309", "\xED\xA0\x80"}});

}  // namespace

}  // namespace verbatim::fuzz
