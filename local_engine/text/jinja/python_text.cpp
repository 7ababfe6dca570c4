#include "local_engine/text/jinja/python_text.hpp"

#include "local_engine/text/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace verbatim::local_engine::jinja {

namespace {

int category(char32_t value) { return utf8proc_category(static_cast<utf8proc_int32_t>(value)); }

char32_t simple_lower(char32_t value) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value)));
}
char32_t simple_upper(char32_t value) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(value)));
}
char32_t simple_title(char32_t value) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(value)));
}

/// Characters whose upper case is several (Unicode's SpecialCasing.txt, unconditional, without the Greek
/// combinations with iota), and their title case.
struct Special {
  char32_t value;
  std::string_view upper;
  std::string_view title;
};
constexpr std::array<Special, 23> kSpecials = {{
    {0xdf, "SS", "Ss"},
    {0x149, "\xca\xbc\x4e", "\xca\xbc\x4e"},
    {0x1f0, "J\xcc\x8c", "J\xcc\x8c"},
    {0x390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x3b0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x1e96, "H\xcc\xb1", "H\xcc\xb1"},
    {0x1e97, "T\xcc\x88", "T\xcc\x88"},
    {0x1e98, "W\xcc\x8a", "W\xcc\x8a"},
    {0x1e99, "Y\xcc\x8a", "Y\xcc\x8a"},
    {0x1e9a, "A\xca\xbe", "A\xca\xbe"},
    {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
    {0xfb13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"},
    {0xfb14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xfb15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"},
    {0xfb16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xfb17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"},
}};

const Special* special(char32_t value) {
  if (value < 0xdf) return nullptr;
  const auto found = std::find_if(kSpecials.begin(), kSpecials.end(),
                                  [&](const Special& s) { return s.value == value; });
  return found == kSpecials.end() ? nullptr : &*found;
}

void append_upper(std::string& out, char32_t value) {
  if (const Special* found = special(value)) {
    out += found->upper;
  } else {
    append_utf8(out, simple_upper(value));
  }
}

void append_title(std::string& out, char32_t value) {
  if (const Special* found = special(value)) {
    out += found->title;
  } else {
    append_utf8(out, simple_title(value));
  }
}

/// May be skipped when looking for the letters around a sigma.
bool is_case_ignorable(char32_t value) {
  const int kind = category(value);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK || value == '\'' || value == '.' || value == ':' ||
         value == 0xb7 || value == 0x2019;
}

/// A capital sigma at `at` is the last letter of a word, so its lower case is the final one.
bool is_final_sigma(std::string_view text, std::size_t at, std::size_t end) {
  bool before = false;
  for (std::size_t i = at; i > 0;) {
    const CodePoint point = code_point_before(text, i);
    i -= point.size;
    if (is_case_ignorable(point.value)) continue;
    before = is_cased(point.value);
    break;
  }
  if (!before) return false;
  for (std::size_t i = end; i < text.size();) {
    const CodePoint point = code_point_at(text, i);
    i += point.size;
    if (is_case_ignorable(point.value)) continue;
    return !is_cased(point.value);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, const CodePoint& point) {
  if (point.value == 0x130) {
    out += "i\xcc\x87";
  } else if (point.value == 0x3a3) {
    append_utf8(out, is_final_sigma(text, at, at + point.size) ? 0x3c2 : 0x3c3);
  } else {
    append_utf8(out, simple_lower(point.value));
  }
}

bool contains(std::string_view set, char32_t value) {
  std::string text;
  append_utf8(text, value);
  return set.find(text) != std::string_view::npos;
}

template <class Predicate>
std::string_view strip_left_if(std::string_view text, const Predicate& drop) {
  while (!text.empty()) {
    const CodePoint point = code_point_at(text, 0);
    if (!drop(point.value)) break;
    text.remove_prefix(point.size);
  }
  return text;
}

template <class Predicate>
std::string_view strip_right_if(std::string_view text, const Predicate& drop) {
  while (!text.empty()) {
    const CodePoint point = code_point_before(text, text.size());
    if (!drop(point.value)) break;
    text.remove_suffix(point.size);
  }
  return text;
}

/// Where the first (last) run of white space begins; the size if there is none.
std::size_t find_space(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_python_space(point.value)) return at;
    at += point.size;
  }
  return text.size();
}

std::size_t find_word_start(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    const CodePoint point = code_point_before(text, at);
    if (is_python_space(point.value)) break;
    at -= point.size;
  }
  return at;
}

}  // namespace

bool is_python_space(char32_t value) {
  return is_white_space(value) || (value >= 0x1c && value <= 0x1f);
}

std::size_t length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = code_point_at(text, at).size;
    out.push_back(text.substr(at, size));
    at += size;
  }
  return out;
}

std::string_view strip_left(std::string_view text) { return strip_left_if(text, is_python_space); }
std::string_view strip_right(std::string_view text) {
  return strip_right_if(text, is_python_space);
}
std::string_view strip_left(std::string_view text, std::string_view set) {
  return strip_left_if(text, [&](char32_t value) { return contains(set, value); });
}
std::string_view strip_right(std::string_view text, std::string_view set) {
  return strip_right_if(text, [&](char32_t value) { return contains(set, value); });
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t limit) {
  std::vector<std::string_view> out;
  const auto may_cut = [&] { return limit < 0 || static_cast<std::int64_t>(out.size()) < limit; };
  if (separator) {
    for (std::size_t at = text.find(*separator); at != std::string_view::npos && may_cut();
         at = text.find(*separator)) {
      out.push_back(text.substr(0, at));
      text.remove_prefix(at + separator->size());
    }
    out.push_back(text);
    return out;
  }
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    const std::size_t end = may_cut() ? find_space(text) : text.size();
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<std::string_view> split_from_right(std::string_view text,
                                               std::optional<std::string_view> separator,
                                               std::int64_t limit) {
  std::vector<std::string_view> out;
  const auto may_cut = [&] { return limit < 0 || static_cast<std::int64_t>(out.size()) < limit; };
  if (separator) {
    for (std::size_t at = text.rfind(*separator); at != std::string_view::npos && may_cut();
         at = text.rfind(*separator)) {
      out.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    out.push_back(text);
  } else {
    for (text = strip_right(text); !text.empty(); text = strip_right(text)) {
      const std::size_t start = may_cut() ? find_word_start(text) : 0;
      out.push_back(text.substr(start));
      text = text.substr(0, start);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const char32_t c = point.value;
    const bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    std::size_t next = at + point.size;
    if (ends) {
      if (c == 0x0d && next < text.size() && text[next] == '\n') ++next;
      out.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) out.push_back(text.substr(start));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    append_lower(out, text, at, point);
    at += point.size;
  }
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    append_upper(out, point.value);
    at += point.size;
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (at == 0) {
      append_title(out, point.value);
    } else {
      append_lower(out, text, at, point);
    }
    at += point.size;
  }
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (in_word) {
      append_lower(out, text, at, point);
    } else {
      append_title(out, point.value);
    }
    in_word = is_cased(point.value);
    at += point.size;
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_upper(point.value)) {
      append_lower(out, text, at, point);
    } else {
      append_upper(out, point.value);
    }
    at += point.size;
  }
  return out;
}

bool is_cased(char32_t value) {
  const int kind = category(value);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || is_upper(value) || is_lower(value);
}

bool is_upper(char32_t value) {
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(value)) != 0;
}

bool is_lower(char32_t value) {
  return utf8proc_islower(static_cast<utf8proc_int32_t>(value)) != 0;
}

bool is_letter(char32_t value) {
  const int kind = category(value);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t value) { return category(value) == UTF8PROC_CATEGORY_ND; }

bool is_printable(char32_t value) {
  if (value == ' ') return true;
  const int kind = category(value);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t limit) {
  std::string out;
  std::int64_t done = 0;
  if (from.empty()) {
    // Between all characters, as Python does.
    for (const std::string_view character : split_characters(text)) {
      if (limit < 0 || done < limit) out += to;
      ++done;
      out += character;
    }
    if (limit < 0 || done < limit) out += to;
    return out;
  }
  for (std::size_t at = text.find(from);
       at != std::string_view::npos && (limit < 0 || done < limit); at = text.find(from)) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
    ++done;
  }
  out += text;
  return out;
}

std::size_t count_matches(std::string_view text, std::string_view what) {
  if (what.empty()) return length(text) + 1;
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++count;
  }
  return count;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  // The shortest digits that read back as the same value, as d.ddde+xx.
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  if (error != std::errc()) return "nan";
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(),
                  exponent);
  std::string sign;
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c == '-') {
      sign = "-";
    } else if (c != '.') {
      digits += c;
    }
  }
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + "e" + (exponent < 0 ? "-" : "+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string string_repr(std::string_view text) {
  const bool single =
      text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const char32_t c = point.value;
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(at, point.size);
    } else {
      const int size = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += size == 2 ? "\\x" : size == 4 ? "\\u" : "\\U";
      for (int i = size - 1; i >= 0; --i) out += kHex[(c >> (4 * i)) & 15];
    }
    at += point.size;
  }
  return out + quote;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  text = strip_left(strip_right(text));
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const auto prefixed = [&](char letter) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
  };
  if (prefixed('x') && (base == 16 || base == 0)) {
    base = 16;
    text.remove_prefix(2);
  } else if (prefixed('o') && (base == 8 || base == 0)) {
    base = 8;
    text.remove_prefix(2);
  } else if (prefixed('b') && (base == 2 || base == 0)) {
    base = 2;
    text.remove_prefix(2);
  }
  if (base == 0) base = 10;
  std::string digits = negative ? "-" : "";
  bool underscore = true;  // may not come first
  for (const char c : text) {
    if (c == '_') {
      if (underscore) return std::nullopt;
      underscore = true;
      continue;
    }
    underscore = false;
    digits += c;
  }
  std::int64_t value = 0;
  if (underscore || text.empty() || base < 2 || base > 36) return std::nullopt;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip_left(strip_right(text));
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const bool tiny =
        text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
    const double limit = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return text[0] == '-' ? -limit : limit;
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace verbatim::local_engine::jinja
