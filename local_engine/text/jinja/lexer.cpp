#include "local_engine/text/jinja/lexer.hpp"

#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"

#include <array>

namespace verbatim::local_engine::jinja {

namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kOperators = "+-/*%~[](){}><=.:|,;";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    add(TokenKind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] bool follows(std::string_view text, std::size_t at) const {
    return source_.substr(at).starts_with(text);
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void add(TokenKind kind, std::string_view text, std::size_t at) {
    tokens_.push_back({kind, std::string(text), static_cast<Position>(at)});
  }

  /// Text up to the next tag, and the tag's beginning.
  void root() {
    std::size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) {
        data(at_, source_.size());
        at_ = source_.size();
        return;
      }
      if (follows("{{", tag) || follows("{%", tag) || follows("{#", tag)) break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    std::size_t inner = tag + 2;
    char sign = '\0';
    if (inner < source_.size() && (source_[inner] == '-' || source_[inner] == '+')) {
      sign = source_[inner++];
    }
    data(at_, trimmed_end(at_, tag, sign, kind));
    at_ = inner;
    line_starting_ = false;
    if (kind == '#') return comment(tag);
    if (kind == '%' && raw(tag)) return;
    add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "", tag);
    tag_body(kind == '{' ? TokenKind::variable_end : TokenKind::block_end, tag);
  }

  void data(std::size_t start, std::size_t end) {
    if (start < end) add(TokenKind::data, source_.substr(start, end - start), start);
  }

  /// Where the text in front of a tag ends once white space is dropped as the tag says.
  [[nodiscard]] std::size_t trimmed_end(std::size_t start, std::size_t tag, char sign,
                                        char kind) const {
    const std::string_view text = source_.substr(start, tag - start);
    if (sign == '-') return start + strip_right(text).size();
    if (sign == '+' || kind == '{') return tag;
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return tag;
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return strip_right(text.substr(line)).empty() ? start + line : tag;
  }

  /// After the end of a tag at at_: `-` drops all white space, a block or comment else one newline.
  void trim_after(char sign, bool newline) {
    const std::size_t before = at_;
    if (sign == '-') {
      while (at_ < source_.size()) {
        const CodePoint point = code_point_at(source_, at_);
        if (!is_python_space(point.value)) break;
        at_ += point.size;
      }
    } else if (sign != '+' && newline && peek() == '\n') {
      ++at_;
    }
    line_starting_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void comment(std::size_t tag) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos)
      fail("missing end of comment tag", static_cast<Position>(tag));
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    trim_after(sign, /*newline=*/true);
  }

  void skip_space() {
    while (at_ < source_.size()) {
      const CodePoint point = code_point_at(source_, at_);
      if (!is_python_space(point.value)) break;
      at_ += point.size;
    }
  }

  /// {% raw %} ... {% endraw %}, if that is what begins here.
  bool raw(std::size_t tag) {
    const std::size_t begin = at_;
    skip_space();
    if (!follows("raw", at_)) return at_ = begin, false;
    at_ += 3;
    skip_space();
    char sign = '\0';
    if (peek() == '-') sign = source_[at_++];
    if (!follows("%}", at_)) return at_ = begin, false;
    at_ += 2;
    trim_after(sign, /*newline=*/false);
    const std::size_t body = at_;
    for (std::size_t end = source_.find("{%", body); end != std::string_view::npos;
         end = source_.find("{%", end + 2)) {
      at_ = end + 2;
      char left = '\0';
      if (peek() == '-' || peek() == '+') left = source_[at_++];
      skip_space();
      if (!follows("endraw", at_)) continue;
      at_ += 6;
      skip_space();
      char right = '\0';
      if (peek() == '-' || peek() == '+') right = source_[at_++];
      if (!follows("%}", at_)) continue;
      at_ += 2;
      data(body, trimmed_end(body, end, left, '%'));
      trim_after(right, /*newline=*/true);
      return true;
    }
    fail("missing end of raw directive", static_cast<Position>(tag));
  }

  /// The tokens of one tag, and its end.
  void tag_body(TokenKind end_kind, std::size_t tag) {
    const std::string_view closing = end_kind == TokenKind::variable_end ? "}}" : "%}";
    std::string open;  // the brackets that are open
    while (true) {
      skip_space();
      if (at_ >= source_.size())
        fail("unexpected end of template, a tag is not closed", static_cast<Position>(tag));
      if (open.empty() && tag_end(end_kind, closing)) return;
      const char c = peek();
      if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        name();
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        oper(open);
      }
    }
  }

  bool tag_end(TokenKind kind, std::string_view closing) {
    const std::size_t begin = at_;
    char sign = '\0';
    if (peek() == '-' || (peek() == '+' && kind == TokenKind::block_end)) sign = source_[at_];
    if (sign != '\0') ++at_;
    if (!follows(closing, at_)) return at_ = begin, false;
    add(kind, "", begin);
    at_ += 2;
    trim_after(sign, kind == TokenKind::block_end);
    return true;
  }

  void digits(std::string& out, bool (*accept)(char)) {
    while (accept(peek()) || (peek() == '_' && accept(peek(1)))) {
      if (peek() != '_') out += peek();
      ++at_;
    }
  }

  void number() {
    const std::size_t begin = at_;
    if (peek() == '0' && std::string_view("xXoObB").find(peek(1)) != std::string_view::npos &&
        peek(1) != '\0') {
      std::string prefixed(source_.substr(at_, 2));
      at_ += 2;
      digits(prefixed, is_hex_digit);
      add(TokenKind::integer, prefixed, begin);
      return;
    }
    std::string text;
    digits(text, is_digit);
    TokenKind kind = TokenKind::integer;
    // After a dot (as in row.0.1) digits are an attribute, not the start of a fraction.
    if (begin == 0 || source_[begin - 1] != '.') {
      if (peek() == '.' && is_digit(peek(1))) {
        kind = TokenKind::floating;
        text += source_[at_++];
        digits(text, is_digit);
      }
      const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
      if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
        kind = TokenKind::floating;
        text += source_.substr(at_, sign);
        at_ += sign;
        digits(text, is_digit);
      }
    }
    add(kind, text, begin);
  }

  void name() {
    const std::size_t begin = at_;
    while (is_name_start(peek()) || is_digit(peek())) ++at_;
    add(TokenKind::name, source_.substr(begin, at_ - begin), begin);
  }

  void string(char quote) {
    const std::size_t begin = at_++;
    std::size_t end = at_;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed", static_cast<Position>(begin));
    add(TokenKind::string,
        resolve_escapes(source_.substr(at_, end - at_), static_cast<Position>(begin)), begin);
    at_ = end + 1;
  }

  void oper(std::string& open) {
    for (const std::string_view text : kLongOperators) {
      if (!follows(text, at_)) continue;
      add(TokenKind::op, text, at_);
      at_ += 2;
      return;
    }
    const char c = peek();
    const auto here = static_cast<Position>(at_);
    if (kOperators.find(c) == std::string_view::npos) fail("unexpected character", here);
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(std::string("unexpected '") + c + "'", here);
      open.pop_back();
    }
    if (open.size() > 200) fail("brackets are nested too deeply", here);
    add(TokenKind::op, source_.substr(at_, 1), at_);
    ++at_;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;  // the last tag ended its line, or this is the start of the template
  std::vector<Token> tokens_;

  static std::string resolve_escapes(std::string_view text, Position at);
};

/// Python's string escapes. An unknown one stays as it is, backslash included.
std::string Lexer::resolve_escapes(std::string_view text, Position at) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    constexpr std::string_view kLetters = "nrtabfv\\'\"";
    constexpr std::string_view kValues = "\n\r\t\a\b\f\v\\'\"";
    if (const std::size_t simple = kLetters.find(c); simple != std::string_view::npos) {
      out += kValues[simple];
    } else if (c == '\n') {
      continue;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t value = 0;
      for (std::size_t k = 1; k <= size; ++k) {
        const char digit = i + k < text.size() ? text[i + k] : '\0';
        if (!is_hex_digit(digit)) fail("a string has a malformed escape", at);
        value = value * 16 +
                static_cast<char32_t>(is_digit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
      }
      if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        fail("a string has an escape that is no character", at);
      }
      append_utf8(out, value);
      i += size;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      std::size_t k = 0;
      while (k < 3 && i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7') {
        value = value * 8 + static_cast<char32_t>(text[i + k++] - '0');
      }
      append_utf8(out, value);
      i += k - 1;
    } else if (c == 'N') {
      refuse("the string escape \\N is not supported", at);
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace verbatim::local_engine::jinja
