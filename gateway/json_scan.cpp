#include "gateway/json_scan.hpp"

#include "schema/bytes.hpp"
#include "schema/json.hpp"

#include <algorithm>
#include <charconv>

namespace verbatim::gateway {

namespace {

/// A position in a JSON text. Every skip_ function leaves it behind what it skipped, or returns
/// false.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  void skip_blank() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  [[nodiscard]] bool done() const { return at_ == text_.size(); }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::string_view since(std::size_t from) const {
    return text_.substr(from, at_ - from);
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool skip_string() {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && !skip_escape()) return false;
    }
    return false;
  }

  bool skip_value(int depth) {
    if (depth > kJsonScanDepthMax || at_ >= text_.size()) return false;
    switch (text_[at_]) {
      case '{':
        return skip_object(depth);
      case '[':
        return skip_array(depth);
      case '"':
        return skip_string();
      case 't':
        return skip_word("true");
      case 'f':
        return skip_word("false");
      case 'n':
        return skip_word("null");
      default:
        return skip_number();
    }
  }

 private:
  bool skip_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool skip_escape() {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (at_ >= text_.size() || !std::isxdigit(static_cast<unsigned char>(text_[at_])))
        return false;
    }
    return true;
  }

  bool skip_digits() {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > from;
  }

  bool skip_number() {
    take('-');
    if (!take('0') && !skip_digits()) return false;
    if (take('.') && !skip_digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return skip_digits();
    }
    return true;
  }

  bool skip_object(int depth) {
    take('{');
    skip_blank();
    if (take('}')) return true;
    for (;;) {
      skip_blank();
      if (!skip_string()) return false;
      skip_blank();
      if (!take(':')) return false;
      skip_blank();
      if (!skip_value(depth + 1)) return false;
      skip_blank();
      if (take('}')) return true;
      if (!take(',')) return false;
    }
  }

  bool skip_array(int depth) {
    take('[');
    skip_blank();
    if (take(']')) return true;
    for (;;) {
      skip_blank();
      if (!skip_value(depth + 1)) return false;
      skip_blank();
      if (take(']')) return true;
      if (!take(',')) return false;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_json(std::string_view text) {
  Cursor cursor(text);
  cursor.skip_blank();
  if (!cursor.skip_value(0)) return false;
  cursor.skip_blank();
  return cursor.done();
}

std::string member_name(const JsonMember& member) {
  if (member.key.find('\\') == std::string_view::npos) return std::string(member.key);
  return json_string(member.whole.substr(0, member.key.size() + 2)).value_or("");
}

bool is_zero(std::string_view number) {
  const std::size_t mantissa_end = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, mantissa_end);
  return !mantissa.empty() && mantissa.find_first_of("123456789") == std::string_view::npos &&
         mantissa.find('0') != std::string_view::npos && mantissa.front() != '"';
}

bool each_member(std::string_view object, const std::function<void(const JsonMember&)>& visit) {
  Cursor cursor(object);
  cursor.skip_blank();
  if (!cursor.take('{')) return false;
  cursor.skip_blank();
  if (cursor.take('}')) {
    cursor.skip_blank();
    return cursor.done();
  }
  for (;;) {
    cursor.skip_blank();
    const std::size_t key_from = cursor.at();
    if (!cursor.skip_string()) return false;
    const std::string_view key = cursor.since(key_from);
    cursor.skip_blank();
    if (!cursor.take(':')) return false;
    cursor.skip_blank();
    const std::size_t value_from = cursor.at();
    if (!cursor.skip_value(1)) return false;
    visit({key.substr(1, key.size() - 2), cursor.since(value_from), cursor.since(key_from)});
    cursor.skip_blank();
    if (cursor.take('}')) break;
    if (!cursor.take(',')) return false;
  }
  cursor.skip_blank();
  return cursor.done();
}

bool each_item(std::string_view array, const std::function<void(std::string_view)>& visit) {
  Cursor cursor(array);
  cursor.skip_blank();
  if (!cursor.take('[')) return false;
  cursor.skip_blank();
  if (!cursor.take(']')) {
    for (;;) {
      cursor.skip_blank();
      const std::size_t from = cursor.at();
      if (!cursor.skip_value(1)) return false;
      visit(cursor.since(from));
      cursor.skip_blank();
      if (cursor.take(']')) break;
      if (!cursor.take(',')) return false;
    }
  }
  cursor.skip_blank();
  return cursor.done();
}

std::optional<std::string> json_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::nullopt;
  const std::string_view inner = value.substr(1, value.size() - 2);
  if (inner.find('\\') == std::string_view::npos) return std::string(inner);
  const auto parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_string()) return std::nullopt;
  return parsed.get<std::string>();
}

std::optional<std::int64_t> json_integer(std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || value.empty()) {
    return std::nullopt;
  }
  return number;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const bool utf8 = is_utf8(text);
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else if (byte >= 0x80 && !utf8) {
      out.push_back(static_cast<char>(0xC0 | (byte >> 6)));
      out.push_back(static_cast<char>(0x80 | (byte & 0x3F)));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace verbatim::gateway
