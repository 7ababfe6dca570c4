#include "local_engine/text/utf8.hpp"

#include <utf8proc.h>

namespace verbatim::local_engine {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// May `second` follow `lead`? (Unicode 15 table 3-7)
bool is_second_byte(unsigned char lead, unsigned char second) {
  if (lead == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (lead == 0xed) return second >= 0x80 && second <= 0x9f;
  if (lead == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (lead == 0xf4) return second >= 0x80 && second <= 0x8f;
  return second >= 0x80 && second <= 0xbf;
}

/// The well-formed start of one character at `at`: how many bytes of it are there and right.
struct Prefix {
  std::size_t size = 0;   // bytes that fit; 0 when the first byte can start nothing
  bool complete = false;  // they are a whole character
  bool cut = false;       // the text ended before the character did
};

Prefix prefix_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {1, true, false};
  const std::size_t size = utf8_size(lead);
  if (size == 1) return {0, false, false};
  for (std::size_t i = 1; i < size; ++i) {
    if (at + i >= text.size()) return {i, false, true};
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if (i == 1 ? !is_second_byte(lead, byte) : !is_continuation(text[at + i])) {
      return {i, false, false};
    }
  }
  return {size, true, false};
}

int category(char32_t value) { return utf8proc_category(static_cast<utf8proc_int32_t>(value)); }

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = utf8_size(static_cast<unsigned char>(lead));
  if (at + size > text.size()) return {0xfffd, text.size() - at};
  if (size == 2) return {((lead & 0x1f) << 6) | (byte(1) & 0x3f), 2};
  if (size == 3) return {((lead & 0x0f) << 12) | ((byte(1) & 0x3f) << 6) | (byte(2) & 0x3f), 3};
  if (size == 4) {
    return {((lead & 0x07) << 18) | ((byte(1) & 0x3f) << 12) | ((byte(2) & 0x3f) << 6) |
                (byte(3) & 0x3f),
            4};
  }
  return {0xfffd, 1};
}

CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && end - start < 4 && is_continuation(text[start])) --start;
  return code_point_at(text.substr(0, end), start);
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | (value >> 6));
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3f));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Prefix prefix = prefix_at(text, at);
    if (!prefix.complete) break;
    at += prefix.size;
  }
  return at;
}

std::string escape_invalid_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    if (valid == text.size()) break;
    append_utf8(out, 0xdc00 + static_cast<char32_t>(static_cast<unsigned char>(text[valid])));
    text.remove_prefix(valid + 1);
  }
  return out;
}

std::string restore_invalid_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_escaped_byte(point.value)) {
      out.push_back(static_cast<char>(escaped_byte(point.value)));
    } else {
      out += text.substr(at, point.size);
    }
    at += point.size;
  }
  return out;
}

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_ + std::string(bytes);
    bytes = joined;
    held_.clear();
  }
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const Prefix prefix = prefix_at(bytes, 0);
    if (prefix.cut) {
      held_ = bytes;
      return;
    }
    out += kReplacement;
    bytes.remove_prefix(prefix.size == 0 ? 1 : prefix.size);
  }
}

void LossyUtf8::finish(std::string& out) {
  if (!held_.empty()) out += kReplacement;
  held_.clear();
}

bool is_white_space(char32_t value) {
  if (value < 0x80) return value == ' ' || (value >= 9 && value <= 13);
  return value == 0x85 || value == 0xa0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200a) || value == 0x2028 || value == 0x2029 ||
         value == 0x202f || value == 0x205f || value == 0x3000;
}

bool is_numeric(char32_t value) {
  const int kind = category(value);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t value) {
  if (value < 0x80) {
    return (value >= 0x21 && value <= 0x2f) || (value >= 0x3a && value <= 0x40) ||
           (value >= 0x5b && value <= 0x60) || (value >= 0x7b && value <= 0x7e);
  }
  const int kind = category(value);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_word_character(char32_t value) {
  const int kind = category(value);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) ||
         kind == UTF8PROC_CATEGORY_PC || (value >= 0x24b6 && value <= 0x24e9) || value == 0x200c ||
         value == 0x200d;
}

bool is_nonspacing_mark(char32_t value) { return category(value) == UTF8PROC_CATEGORY_MN; }

}  // namespace verbatim::local_engine
