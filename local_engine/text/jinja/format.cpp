// Python's two ways to format: "%s" % value and "{}".format(value).

#include "local_engine/text/jinja/operators.hpp"
#include "local_engine/text/jinja/print.hpp"
#include "local_engine/text/jinja/python_text.hpp"
#include "local_engine/text/utf8.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace verbatim::local_engine::jinja {

namespace {

constexpr std::size_t kWidthMax = 10'000;
constexpr int kPrecisionMax = 300;

/// What both kinds of format say about one value.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + or space
  bool alternate = false;
  bool comma = false;
  std::size_t width = 0;
  std::optional<int> precision;
  char type = '\0';
};

std::size_t read_number(std::string_view text, std::size_t& at) {
  std::size_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (value > kWidthMax) fail("a format's width or precision is too large");
  }
  return value;
}

std::string with_commas(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string pad(std::string sign, std::string body, const Spec& spec, char default_align) {
  const std::size_t size = length(sign) + length(body);
  if (size >= spec.width) return sign + body;
  const std::size_t missing = spec.width - size;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before;
  std::string after;
  for (std::size_t i = 0; i < missing; ++i) (i < left ? before : after) += spec.fill;
  return align == '=' ? sign + before + body : before + sign + body + after;
}

std::string sign_of(bool negative, const Spec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string format_integer(const Value& value, const Spec& spec) {
  const bool big = value.is(Kind::big);
  const bool negative = !big && value.integer() < 0;
  const std::uint64_t magnitude = big        ? value.big()
                                  : negative ? 0 - static_cast<std::uint64_t>(value.integer())
                                             : static_cast<std::uint64_t>(value.integer());
  const char type = spec.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  char buffer[70];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr;
  std::string digits(buffer, end);
  if (type == 'X') digits = to_upper(digits);
  if (spec.comma) digits = with_commas(digits);
  if (spec.precision && digits.size() < static_cast<std::size_t>(*spec.precision)) {
    digits.insert(0, static_cast<std::size_t>(*spec.precision) - digits.size(), '0');
  }
  std::string sign = sign_of(negative, spec);
  if (spec.alternate && base != 10) sign += std::string("0") + type;
  return pad(std::move(sign), std::move(digits), spec, '>');
}

/// `g` of printf and Python: to_chars has the same rules, except that Python's default keeps ".0".
std::string format_real(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  std::string body;
  const char lower = static_cast<char>(spec.type | 0x20);
  if (std::isnan(value) || std::isinf(value)) {
    body = std::isnan(value) ? "nan" : "inf";
  } else if (spec.type == '\0' && !spec.precision) {
    body = float_repr(magnitude);
  } else {
    char buffer[800];
    const double scaled = spec.type == '%' ? magnitude * 100 : magnitude;
    const auto style = lower == 'e'                     ? std::chars_format::scientific
                       : lower == 'g' || spec.type == 0 ? std::chars_format::general
                                                        : std::chars_format::fixed;
    const int precision = spec.precision.value_or(6);
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, scaled, style,
                                   lower == 'g' && precision == 0 ? 1 : precision)
                         .ptr;
    body.assign(buffer, end);
    if (spec.type == '%') body += '%';
  }
  if (spec.comma) {
    const std::size_t whole = std::min(body.find_first_not_of("0123456789"), body.size());
    body = with_commas(body.substr(0, whole)) + body.substr(whole);
  }
  if (spec.type == 'E' || spec.type == 'G' || spec.type == 'F') body = to_upper(body);
  return pad(sign_of(negative, spec), std::move(body), spec, '>');
}

std::string format_text(std::string text, const Spec& spec) {
  if (spec.precision) {
    std::string cut;
    int left = *spec.precision;
    for (const std::string_view character : split_characters(text)) {
      if (left-- == 0) break;
      cut += character;
    }
    text = std::move(cut);
  }
  return pad("", std::move(text), spec, '<');
}

bool is_integer_type(char type) {
  return std::string_view("dixXobn").find(type) != std::string_view::npos;
}
bool is_real_type(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}

void check_size(const std::string& out) {
  if (out.size() > kTextBytesMax) fail("a text is larger than 16 MiB");
}

/// Reads the specifications of a %-format one by one.
class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& arguments)
      : format_(format), arguments_(arguments) {
    if (arguments.is(Kind::tuple)) {
      values_ = arguments.list().items;
    } else {
      values_.push_back(arguments);
    }
  }

  std::string run() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c == '%') {
        conversion();
      } else {
        out_ += c;
      }
      check_size(out_);
    }
    if (!named_ && next_ < values_.size() && !arguments_.is(Kind::dict)) {
      fail("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  void conversion() {
    std::optional<Value> named;
    if (peek() == '(') named = named_value();
    Spec spec;
    spec.align = '>';
    flags(spec);
    spec.width = peek() == '*' ? star() : read_number(format_, at_);
    if (peek() == '.') {
      ++at_;
      spec.precision = static_cast<int>(peek() == '*' ? star() : read_number(format_, at_));
      if (*spec.precision > kPrecisionMax) fail("a format's precision is too large");
    }
    if (at_ >= format_.size()) fail("incomplete format");
    spec.type = format_[at_++];
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    const Value value = named ? *named : next();
    convert(value, spec);
  }

  Value named_value() {
    const std::size_t end = format_.find(')', at_);
    if (end == std::string_view::npos) fail("incomplete format key");
    if (!arguments_.is(Kind::dict)) fail("format requires a mapping");
    const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    named_ = true;
    const Value* found = arguments_.dict().find(name);
    if (found == nullptr) fail("the format names '" + std::string(name) + "', which is not given");
    return *found;
  }

  void flags(Spec& spec) {
    for (;; ++at_) {
      switch (peek()) {
        case '-':
          spec.align = '<';
          spec.fill = " ";
          continue;
        case '0':
          if (spec.align != '<') {
            spec.align = '=';
            spec.fill = "0";
          }
          continue;
        case '+':
          spec.sign = '+';
          continue;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          continue;
        case '#':
          spec.alternate = true;
          continue;
        default:
          return;
      }
    }
  }

  std::size_t star() {
    ++at_;
    const Value value = next();
    if (!value.is_integer() || value.integer() < 0 ||
        value.integer() > static_cast<std::int64_t>(kWidthMax)) {
      fail("a * in a format wants a small integer");
    }
    return static_cast<std::size_t>(value.integer());
  }

  Value next() {
    if (next_ >= values_.size()) fail("not enough arguments for format string");
    return values_[next_++];
  }

  void convert(const Value& value, Spec& spec) {
    switch (spec.type) {
      case 's':
      case 'r': {
        if (spec.align == '=') spec = with_spaces(spec);
        out_ += format_text(spec.type == 's' ? to_text(value) : to_repr(value), spec);
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        if (!value.is_number()) {
          fail(std::string("%") + spec.type + " format: a real number is required, not " +
               type_name(defined(value)));
        }
        if (value.is(Kind::real) &&
            (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' ||
             std::abs(value.real()) >= 9.2e18 || std::isnan(value.real()))) {
          fail(std::string("%") + spec.type + " format: an integer is required, not float");
        }
        out_ += format_integer(
            value.is(Kind::real) ? Value(static_cast<std::int64_t>(value.real())) : value, spec);
        return;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number())
          fail(std::string("must be real number, not ") + type_name(defined(value)));
        out_ += format_real(value.as_real(), spec);
        return;
      case 'c':
        character(value);
        return;
      default:
        refuse(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  static Spec with_spaces(Spec spec) {
    spec.align = '>';
    spec.fill = " ";
    return spec;
  }

  void character(const Value& value) {
    if (value.is(Kind::string) && length(value) == 1) {
      out_ += value.str();
    } else if (value.is_integer() && value.integer() >= 0 && value.integer() <= 0x10ffff &&
               (value.integer() < 0xd800 || value.integer() > 0xdfff)) {
      append_utf8(out_, static_cast<char32_t>(value.integer()));
    } else {
      fail("%c requires int or char");
    }
  }

  std::string_view format_;
  const Value& arguments_;
  std::vector<Value> values_;
  std::size_t next_ = 0;
  bool named_ = false;
  std::size_t at_ = 0;
  std::string out_;
};

/// Reads the replacement fields of a {}-format one by one.
class BraceFormat {
 public:
  BraceFormat(Interpreter& interpreter, std::string_view format, const CallArguments& arguments)
      : interpreter_(interpreter), format_(format), arguments_(arguments) {}

  std::string run() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      const bool doubled = at_ < format_.size() && format_[at_] == c;
      if ((c == '{' || c == '}') && doubled) {
        out_ += c;
        ++at_;
      } else if (c == '{') {
        field();
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else {
        out_ += c;
      }
      check_size(out_);
    }
    return std::move(out_);
  }

 private:
  void field() {
    const std::size_t end = format_.find('}', at_);
    if (end == std::string_view::npos) fail("expected '}' before end of string");
    const std::string_view body = format_.substr(at_, end - at_);
    if (body.find('{') != std::string_view::npos)
      refuse("a format within a format is not supported");
    at_ = end + 1;
    const std::size_t colon = body.find(':');
    std::string_view name = body.substr(0, colon);
    const std::string_view spec_text =
        colon == std::string_view::npos ? std::string_view() : body.substr(colon + 1);
    char conversion = '\0';
    if (const std::size_t mark = name.find('!'); mark != std::string_view::npos) {
      const std::string_view kind = name.substr(mark + 1);
      if (kind != "s" && kind != "r")
        refuse("the format conversion !" + std::string(kind) + " is not supported");
      conversion = kind[0];
      name = name.substr(0, mark);
    }
    Value value = find(name);
    if (conversion != '\0') {
      value = interpreter_.text(conversion == 's' ? to_text(value) : to_repr(value));
    }
    out_ += convert(value, spec_text);
  }

  /// name, name.attribute, name[key]: the name may be empty or a number.
  Value find(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, at));
    while (at < path.size()) {
      if (path[at] == '.') {
        const std::size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        value = defined(interpreter_.attribute(value, path.substr(at + 1, end - at - 1)));
        at = end;
      } else if (path[at] == '[') {
        const std::size_t end = path.find(']', at);
        if (end == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view key = path.substr(at + 1, end - at - 1);
        const auto index = parse_integer(key, 10);
        value = defined(interpreter_.subscript(
            value, index ? Value(*index) : interpreter_.text(std::string(key))));
        at = end + 1;
      } else {
        fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::size_t index = next_;
    if (!name.empty()) {
      std::size_t at = 0;
      index = read_number(name, at);
      if (at != name.size()) {
        for (const auto& [known, value] : arguments_.named) {
          if (known == name) return value;
        }
        fail("the format names '" + std::string(name) + "', which is not given");
      }
    } else {
      ++next_;
    }
    if (index >= arguments_.positional.size()) {
      fail("Replacement index " + std::to_string(index) +
           " out of range for positional args tuple");
    }
    return arguments_.positional[index];
  }

  static Spec read_spec(std::string_view text) {
    Spec spec;
    std::size_t at = 0;
    const auto is_align = [&](std::size_t i) {
      return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    const std::size_t first = text.empty() ? 0 : code_point_at(text, 0).size;
    if (is_align(first)) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(0)) {
      spec.align = text[at++];
    }
    if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' '))
      spec.sign = text[at++];
    if (at < text.size() && text[at] == '#') spec.alternate = ++at > 0;
    if (at < text.size() && text[at] == '0' && spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    spec.width = read_number(text, at);
    if (at < text.size() && text[at] == ',') spec.comma = ++at > 0;
    if (at < text.size() && text[at] == '.') {
      ++at;
      spec.precision = static_cast<int>(read_number(text, at));
      if (*spec.precision > kPrecisionMax) fail("a format's precision is too large");
    }
    if (at < text.size()) spec.type = text[at++];
    if (at != text.size()) fail("Invalid format specifier");
    return spec;
  }

  static std::string convert(const Value& value, std::string_view spec_text) {
    if (spec_text.empty()) return to_text(value);
    Spec spec = read_spec(spec_text);
    if (value.is(Kind::string) && (spec.type == '\0' || spec.type == 's')) {
      if (spec.align == '=' && spec.fill == "0") spec.align = '<';  // "05" pads a text on its right
      return format_text(value.str(), spec);
    }
    if (value.is(Kind::boolean) && spec.type == '\0') return format_text(to_text(value), spec);
    if ((value.is_integer() || value.is(Kind::big)) &&
        (spec.type == '\0' || is_integer_type(spec.type))) {
      if (spec.precision) fail("Precision not allowed in integer format specifier");
      return format_integer(value, spec);
    }
    if (value.is_number() && (spec.type == '\0' || is_real_type(spec.type))) {
      return format_real(value.as_real(), spec);
    }
    fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
         type_name(defined(value)) + "'");
  }

  Interpreter& interpreter_;
  std::string_view format_;
  const CallArguments& arguments_;
  std::size_t next_ = 0;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string format_percent(std::string_view format, const Value& arguments) {
  return PercentFormat(format, arguments).run();
}

std::string format_braces(Interpreter& interpreter, std::string_view format,
                          const CallArguments& arguments) {
  return BraceFormat(interpreter, format, arguments).run();
}

}  // namespace verbatim::local_engine::jinja
