#pragma once
// Canonical JSON (RFC 8785, JCS), and strict reading of JSON from outside.
//
// nlohmann's dump() is not JCS: it sorts by UTF-8 bytes and prints doubles otherwise.

#include "schema/error.hpp"
#include "schema/json.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim {

/// How numbers of the input appear in the output.
enum class Numbers {
  /// RFC 8785: the ECMAScript form of the nearest double. 9007199254740993 becomes ...992.
  ecmascript,
  /// Integers of up to 64 bits exactly, any other number as the token that was sent. For cache keys: two
  /// requests that differ in a number never share a key.
  literal,
};

/// Deepest nesting that is read. Deeper input is `invalid_input`.
inline constexpr int kJsonDepthMax = 512;

/// Parses JSON and writes it canonically: no white space, keys sorted by UTF-16 code units.
/// `invalid_input`: not JSON, duplicate keys, a lone surrogate, invalid UTF-8, too deep, or (for
/// `ecmascript`) a number beyond the doubles, or more than `values_max` values. Of memory and time a value costs as much as
/// some hundred bytes of text.
[[nodiscard]] Result<std::string> canonicalize(std::string_view json, Numbers numbers,
                                               std::size_t values_max = SIZE_MAX);

/// Writes a value canonically. For leaves and other things we make ourselves: a float, an integer beyond
/// 2^53, or invalid UTF-8 in it is a bug and throws std::logic_error, so that no float ever enters a
/// hashed record.
[[nodiscard]] std::string canonical(const Json& value);

/// Parses JSON from outside with the same refusals as canonicalize(), except that numbers may be any.
[[nodiscard]] Result<Json> parse_json(std::string_view text);

/// ECMAScript Number::toString of a finite double.
[[nodiscard]] std::string ecmascript_number(double value);

}  // namespace verbatim
