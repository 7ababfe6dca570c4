#include "local_engine/text/byte_level.hpp"

#include "local_engine/text/utf8.hpp"

#include <array>
#include <cstdint>

namespace verbatim::local_engine {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<std::uint16_t, 256> make_characters() {
  std::array<std::uint16_t, 256> characters{};
  std::uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<std::uint16_t, 256> kCharacters = make_characters();

constexpr std::array<std::int16_t, 0x144> make_bytes() {
  std::array<std::int16_t, 0x144> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<std::int16_t, 0x144> kBytes = make_bytes();

}  // namespace

char32_t byte_character(unsigned char byte) { return kCharacters[byte]; }

std::optional<unsigned char> character_byte(char32_t character) {
  if (character >= kBytes.size() || kBytes[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(kBytes[character]);
}

std::string to_byte_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_escaped_byte(point.value)) {
      append_utf8(out, byte_character(escaped_byte(point.value)));
    } else {
      for (const char c : text.substr(at, point.size)) {
        append_utf8(out, byte_character(static_cast<unsigned char>(c)));
      }
    }
    at += point.size;
  }
  return out;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const auto byte = character_byte(point.value);
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += point.size;
  }
  return out;
}

}  // namespace verbatim::local_engine
