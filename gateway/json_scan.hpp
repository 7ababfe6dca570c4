#pragma once
// Reading a few members of a JSON text in place, without building it: on the pass-through path a
// full parse would cost more than all the rest of an exchange.
//
// Spans are borrowed from the text. Every function checks the grammar of all it walks over (RFC
// 8259), with a bound on nesting; it does not check for duplicate keys or for valid UTF-8.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

inline constexpr int kJsonScanDepthMax = 512;

/// True if the whole text is exactly one JSON value.
[[nodiscard]] bool is_json(std::string_view text);

/// One member of an object: the key without its quotes and still escaped, and the value's text.
struct JsonMember {
  std::string_view key;
  std::string_view value;
  std::string_view whole;  ///< from the key's quote to the value's end
};

/// Its name as every JSON parser reads it: "mod\u0065l" is "model".
[[nodiscard]] std::string member_name(const JsonMember& member);

/// True for 0, -0, 0.0, 0e5: any way to write it.
[[nodiscard]] bool is_zero(std::string_view number);

/// Visits the members of an object in order. False if the text is not one whole object.
bool each_member(std::string_view object, const std::function<void(const JsonMember&)>& visit);

/// Visits the items of an array in order. False if the text is not one whole array.
bool each_item(std::string_view array, const std::function<void(std::string_view)>& visit);

/// The text of a JSON string value, unescaped. Absent if it is no string.
[[nodiscard]] std::optional<std::string> json_string(std::string_view value);

/// The integer of a JSON number value without fraction or exponent, if it fits. Absent otherwise.
[[nodiscard]] std::optional<std::int64_t> json_integer(std::string_view value);

/// Appends `text` as a quoted JSON string. Bytes that are not UTF-8 are read as Latin-1, as HTTP
/// once said.
void append_json_string(std::string& out, std::string_view text);

}  // namespace verbatim::gateway
