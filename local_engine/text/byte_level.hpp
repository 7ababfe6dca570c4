#pragma once
// GPT-2's printable stand-ins for bytes: each of the 256 bytes is one character, so that a vocabulary of text
// can hold any bytes. Printable Latin-1 bytes stand for themselves; the others are U+0100 and up, in order.

#include <optional>
#include <string>
#include <string_view>

namespace verbatim::local_engine {

/// The character that stands for a byte.
[[nodiscard]] char32_t byte_character(unsigned char byte);

/// The byte that a character stands for, if it stands for one.
[[nodiscard]] std::optional<unsigned char> character_byte(char32_t character);

/// Every byte by its character. Surrogates of invalid bytes (utf8.hpp) count as their byte.
[[nodiscard]] std::string to_byte_characters(std::string_view text);

/// The bytes that the characters stand for; nothing if one of them stands for none.
[[nodiscard]] std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace verbatim::local_engine
