#include "schema/bytes.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace verbatim {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "verbatim: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

std::string to_hex(Bytes bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(bytes.size() * 2, '\0');
  char* at = text.data();
  for (const std::uint8_t byte : bytes) {
    *at++ = kDigits[byte >> 4];
    *at++ = kDigits[byte & 15];
  }
  return text;
}

namespace {

constexpr std::array<std::int8_t, 256> hex_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 10; ++i)
    values[static_cast<std::size_t>('0' + i)] = static_cast<std::int8_t>(i);
  for (int i = 10; i < 16; ++i) {
    values[static_cast<std::size_t>('a' + i - 10)] = static_cast<std::int8_t>(i);
    values[static_cast<std::size_t>('A' + i - 10)] = static_cast<std::int8_t>(i);
  }
  return values;
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> base64_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<unsigned char>(kBase64[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}

Error not_base64() { return {Errc::invalid_input, "not valid base64", "", ""}; }

}  // namespace

Result<ByteVector> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) {
    return Error{Errc::invalid_input, "hexadecimal text has an odd length", "", ""};
  }
  static constexpr auto kValues = hex_values();
  ByteVector bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = kValues[static_cast<unsigned char>(text[2 * i])];
    const int low = kValues[static_cast<unsigned char>(text[2 * i + 1])];
    if (high < 0 || low < 0) {
      return Error{Errc::invalid_input, "not a hexadecimal digit", "", ""};
    }
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return bytes;
}

std::string to_base64(Bytes bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t group = (std::uint32_t{bytes[i]} << 16) |
                                (left > 1 ? std::uint32_t{bytes[i + 1]} << 8 : 0U) |
                                (left > 2 ? std::uint32_t{bytes[i + 2]} : 0U);
    text.push_back(kBase64[group >> 18]);
    text.push_back(kBase64[(group >> 12) & 63]);
    text.push_back(left > 1 ? kBase64[(group >> 6) & 63] : '=');
    text.push_back(left > 2 ? kBase64[group & 63] : '=');
  }
  return text;
}

Result<ByteVector> from_base64(std::string_view text) {
  static constexpr auto kValues = base64_values();
  if (text.size() % 4 != 0) return not_base64();
  ByteVector bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t padding =
        last && text[i + 3] == '=' ? (text[i + 2] == '=' ? std::size_t{2} : std::size_t{1}) : 0;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int value = j >= 4 - padding ? 0 : kValues[static_cast<unsigned char>(text[i + j])];
      if (value < 0) return not_base64();
      group = (group << 6) | static_cast<std::uint32_t>(value);
    }
    if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0)) {
      return not_base64();
    }
    bytes.push_back(static_cast<std::uint8_t>(group >> 16));
    if (padding < 2) bytes.push_back(static_cast<std::uint8_t>(group >> 8));
    if (padding < 1) bytes.push_back(static_cast<std::uint8_t>(group));
  }
  return bytes;
}

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0) != 0x80) return false;
    }
    const auto second = static_cast<unsigned char>(text[i + 1]);
    if (lead == 0xE0 && second < 0xA0) return false;  // overlong
    if (lead == 0xED && second > 0x9F) return false;  // surrogates
    if (lead == 0xF0 && second < 0x90) return false;  // overlong
    if (lead == 0xF4 && second > 0x8F) return false;  // beyond U+10FFFF
    i += length;
  }
  return true;
}

}  // namespace verbatim
