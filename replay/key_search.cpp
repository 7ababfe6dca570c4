#include "replay/key_search.hpp"

#include "schema/bytes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace verbatim::replay {

namespace {

/// Of an encoded key: shorter pieces of base64 or hexadecimal stand in any text.
constexpr std::size_t kBase64Min = 6, kHexMin = 12;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::optional<unsigned> number_in(std::string_view digits, int base) {
  unsigned value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// What was escaped: a key has no other characters than these, and white space stands for nothing.
std::optional<char> escaped(std::optional<unsigned> code) {
  if (!code || *code >= 0x7F) return std::nullopt;
  return *code < 0x20 ? ' ' : static_cast<char>(*code);
}

/// `&#115;`, `&#x73;`, `&amp;`: without the ampersand and the semicolon.
std::optional<char> entity(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, char>, 12> kNames = {{{"amp", '&'},
                                                                                {"lt", '<'},
                                                                                {"gt", '>'},
                                                                                {"quot", '"'},
                                                                                {"apos", '\''},
                                                                                {"sol", '/'},
                                                                                {"plus", '+'},
                                                                                {"equals", '='},
                                                                                {"lowbar", '_'},
                                                                                {"period", '.'},
                                                                                {"colon", ':'},
                                                                                {"percnt", '%'}}};
  if (name.starts_with("#x") || name.starts_with("#X")) {
    return escaped(number_in(name.substr(2), 16));
  }
  if (name.starts_with("#")) return escaped(number_in(name.substr(1), 10));
  const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                         [&](const auto& each) { return each.first == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

/// The length of the escape that a text ends with, and what it stands for; 0 if it ends with none.
std::pair<std::size_t, char> escape_at_end(std::string_view text) {
  constexpr std::size_t kEntityMax = 12;
  const auto ends_with = [&](std::string_view head, std::size_t digits) -> std::optional<char> {
    const std::size_t length = head.size() + digits;
    if (text.size() < length || !text.substr(text.size() - length).starts_with(head)) return {};
    return escaped(number_in(text.substr(text.size() - digits), 16));
  };
  if (const auto c = ends_with("%", 2)) return {3, *c};
  if (const auto c = ends_with("\\x", 2)) return {4, *c};
  if (const auto c = ends_with("\\u", 4)) return {6, *c};
  if (text.ends_with(';')) {
    const std::string_view last = text.substr(text.size() - std::min(text.size(), kEntityMax));
    const std::size_t begin = last.rfind('&');
    if (begin == std::string_view::npos) return {0, 0};
    const auto c = entity(last.substr(begin + 1, last.size() - begin - 2));
    return c ? std::pair(last.size() - begin, *c) : std::pair(std::size_t{0}, '\0');
  }
  if (text.size() < 2 || text[text.size() - 2] != '\\') return {0, 0};
  const char last = text.back();
  if (std::string_view("\"\\/'").find(last) != std::string_view::npos) return {2, last};
  if (std::string_view("bfnrt").find(last) != std::string_view::npos) return {2, ' '};
  return {0, 0};
}

/// The characters of base64 that are the same wherever `key` stands in what was encoded, `before` bytes from a third one.
std::string base64_of(std::string_view key, std::size_t before) {
  std::string bytes(before, '\0');
  bytes += key;
  const std::size_t whole = bytes.size() * 8 / 6;  // characters that no byte behind the key changes
  const std::string text = to_base64(as_bytes(bytes));
  const std::size_t from = (before * 8 + 5) / 6;
  return whole > from ? text.substr(from, whole - from) : "";
}

}  // namespace

std::string plain_form(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (is_space(c)) continue;
    plain += c;
    // What an escape stood for may be the end of another one.
    for (;;) {
      const auto [length, meant] = escape_at_end(plain);
      if (length == 0) break;
      plain.resize(plain.size() - length);
      if (!is_space(meant)) plain += meant;
    }
  }
  // What is left of them escapes nothing, or stands in the key and may have been doubled.
  plain.erase(std::remove(plain.begin(), plain.end(), '\\'), plain.end());
  return plain;
}

KeySearch::KeySearch(std::string_view key) : key_(key) {
  if (key.empty()) return;
  if (std::string plain = plain_form(key); !plain.empty()) plain_.push_back(std::move(plain));
  for (std::size_t before = 0; before < 3; ++before) {
    std::string encoded = base64_of(key, before);
    if (encoded.size() < kBase64Min) continue;
    plain_.push_back(encoded);
    std::replace(encoded.begin(), encoded.end(), '+', '-');
    std::replace(encoded.begin(), encoded.end(), '/', '_');
    plain_.push_back(std::move(encoded));
  }
  const std::string hex = to_hex(as_bytes(key));
  if (hex.size() >= kHexMin) hex_ = hex;
}

bool KeySearch::finds(std::string_view text) const {
  if (key_.empty()) return false;
  if (text.find(key_) != std::string_view::npos) return true;
  std::string plain = plain_form(text);
  const auto holds = [&](const std::string& form) { return plain.find(form) != std::string::npos; };
  if (std::any_of(plain_.begin(), plain_.end(), holds)) return true;
  std::transform(plain.begin(), plain.end(), plain.begin(), lower);
  return !hex_.empty() && holds(hex_);
}

}  // namespace verbatim::replay
