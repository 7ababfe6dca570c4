// Rewrites Oniguruma's syntax (as Hugging Face's tokenizers use it) into PCRE2's.

#include "local_engine/text/pattern.hpp"
#include "local_engine/text/utf8.hpp"

#include <array>
#include <cctype>
#include <utility>

namespace verbatim::local_engine {

namespace {

// Unicode White_Space as members of a class. PCRE2's own \s also has U+180E, which lost the property in
// Unicode 6.3.
constexpr std::string_view kSpace =
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{00}-\\x{08}\\x{0e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"
    "1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"
    "10ffff}";
// PCRE2 10.42's own \w knows neither marks nor connector punctuation.
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHex = "0-9a-fA-F";

constexpr std::array<std::string_view, 37> kCategories = {
    "c",  "cc", "cf", "cn", "co", "cs", "l",  "ll", "lm", "lo", "lt", "lu", "m",
    "mc", "me", "mn", "n",  "nd", "nl", "no", "p",  "pc", "pd", "pe", "pf", "pi",
    "po", "ps", "s",  "sc", "sk", "sm", "so", "z",  "zl", "zp", "zs"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kLongNames = {{
    {"letter", "L"},
    {"lowercaseletter", "Ll"},
    {"uppercaseletter", "Lu"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"alphabetic", "Alphabetic"},
    {"any", "Any"},
}};

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  std::string run() {
    while (at_ < in_.size()) step();
    if (!groups_.empty()) malformed("pattern has an unclosed group");
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kNoAtom = std::string::npos;

  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }
  char take() {
    if (at_ >= in_.size()) malformed("pattern ends too early");
    return in_[at_++];
  }

  void step() {
    const char c = take();
    switch (c) {
      case '\\':
        return escape();
      case '[':
        return character_class();
      case '(':
        return open_group();
      case ')':
        if (groups_.empty()) malformed("pattern has an unopened group");
        out_ += ')';
        atom_ = groups_.back();
        groups_.pop_back();
        return;
      case '*':
      case '+':
      case '?':
        need_atom();
        out_ += c;
        if (peek() == '?' || peek() == '+') out_ += take();
        atom_ = kNoAtom;
        return;
      case '{':
        return interval();
      case '|':
      case '^':
      case '$':
        out_ += c;
        atom_ = kNoAtom;
        return;
      default:
        atom_ = out_.size();
        out_ += c;
        // The rest of a multi-byte character belongs to the same atom.
        while ((static_cast<unsigned char>(peek()) & 0xc0) == 0x80) out_ += take();
    }
  }

  void need_atom() const {
    if (atom_ == kNoAtom) refuse("pattern repeats something that cannot be repeated");
  }

  /// x{n}, x{n,}, x{n,m}, x{,m}. A following + is greedy repetition of the whole in Oniguruma, possessive in
  /// PCRE2.
  void interval() {
    std::size_t end = at_;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == ',')) {
      ++end;
    }
    const std::string_view body = in_.substr(at_, end - at_);
    if (end >= in_.size() || in_[end] != '}' || body.empty() || body == ",") {
      atom_ = out_.size();
      out_ += "\\{";  // not an interval: an ordinary brace
      return;
    }
    need_atom();
    at_ = end + 1;
    const std::string repeat =
        "{" + std::string(body[0] == ',' ? "0" : "") + std::string(body) + "}";
    if (peek() == '+') {
      out_.insert(atom_, "(?:");
      out_ += repeat + ")";
      return;  // the group is the atom that the + repeats
    }
    out_ += repeat;
    if (peek() == '?') {
      if (body.find(',') == std::string_view::npos) refuse("pattern has {n}? in it");
      out_ += take();
    }
    atom_ = kNoAtom;
  }

  void open_group() {
    groups_.push_back(out_.size());
    out_ += '(';
    atom_ = kNoAtom;
    if (peek() != '?') return;
    out_ += take();
    const char kind = take();
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      out_ += kind;
      return;
    }
    if (kind == '<') {
      out_ += kind;
      if (peek() == '=' || peek() == '!') {
        out_ += take();
        return;
      }
      while (peek() != '>') out_ += take();
      out_ += take();
      return;
    }
    --at_;
    flags();
  }

  /// (?i) and (?i:...). Oniguruma's m is PCRE2's s: the dot matches a newline.
  void flags() {
    while (true) {
      const char flag = take();
      if (flag == 'i' || flag == '-') {
        out_ += flag;
      } else if (flag == 'm') {
        out_ += 's';
      } else if (flag == ':') {
        out_ += flag;
        return;
      } else if (flag == ')') {
        out_ += flag;
        groups_.pop_back();
        return;
      } else {
        refuse(std::string("pattern group (?") + flag + " is not supported");
      }
    }
  }

  void escape() {
    const char c = take();
    atom_ = out_.size();
    const auto set = [&](std::string_view members, bool negated) {
      out_ += negated ? "[^" : "[";
      out_ += members;
      out_ += ']';
    };
    switch (c) {
      case 's':
      case 'S':
        return set(kSpace, c == 'S');
      case 'w':
      case 'W':
        return set(kWord, c == 'W');
      case 'h':
      case 'H':
        return set(kHex, c == 'H');
      case 'R':
        out_ += "(?>\\r\\n|[\\x{0a}-\\x{0d}\\x{85}\\x{2028}\\x{2029}])";
        return;
      case 'b':
      case 'B':
        word_boundary(c == 'b');
        return;
      case 'A':
      case 'G':
      case 'z':
      case 'Z':
        atom_ = kNoAtom;
        out_ += '\\';
        out_ += c;
        return;
      default:
        common_escape(c);
    }
  }

  void word_boundary(bool boundary) {
    const std::string word = "[" + std::string(kWord) + "]";
    out_ += boundary ? "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))"
                     : "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
    atom_ = kNoAtom;
  }

  /// Escapes that mean the same inside and outside a class.
  void common_escape(char c) {
    switch (c) {
      case 'd':
        out_ += "\\p{Nd}";
        return;
      case 'D':
        out_ += "\\P{Nd}";
        return;
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'v':
        out_ += "\\x{0b}";
        return;
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_ += '\\';
        out_ += c;
        return;
      case 'x':
        return peek() == '{' ? braced_hex() : hex(1, 2);
      case 'u':
        return hex(4, 4);
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      refuse(std::string("pattern escape \\") + c + " is not supported");
    }
    if (byte < 0x80) out_ += '\\';  // a needless backslash before another character is dropped
    out_ += c;
    while ((static_cast<unsigned char>(peek()) & 0xc0) == 0x80) out_ += take();
  }

  void braced_hex() {
    take();
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos || end - at_ > 8 || end == at_) {
      malformed("pattern has a malformed \\x{...}");
    }
    put_hex(in_.substr(at_, end - at_));
    at_ = end + 1;
  }

  void hex(std::size_t least, std::size_t most) {
    std::size_t size = 0;
    while (size < most && std::isxdigit(static_cast<unsigned char>(peek(size))) != 0) ++size;
    if (size < least) malformed("pattern has a malformed hexadecimal escape");
    put_hex(in_.substr(at_, size));
    at_ += size;
  }

  void put_hex(std::string_view digits) {
    for (const char c : digits) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
        malformed("pattern has a malformed hexadecimal escape");
      }
    }
    out_ += "\\x{" + std::string(digits) + "}";
  }

  void property(bool negated) {
    if (take() != '{') refuse("pattern property without braces");
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) malformed("pattern has an unclosed property");
    std::string_view name = in_.substr(at_, end - at_);
    at_ = end + 1;
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    out_ += negated ? "\\P{" : "\\p{";
    out_ += property_name(name);
    out_ += '}';
  }

  /// A general category, or a script. In PCRE2 a bare script name would mean Script_Extensions.
  static std::string property_name(std::string_view name) {
    std::string key;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '_' || c == '-' || c == ' ') continue;
      if (std::isalpha(byte) == 0) refuse("pattern property \\p{" + std::string(name) + "}");
      key += static_cast<char>(std::tolower(byte));
    }
    for (const std::string_view category : kCategories) {
      if (key != category) continue;
      key[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(key[0])));
      return key;
    }
    for (const auto& [long_name, short_name] : kLongNames) {
      if (key == long_name) return std::string(short_name);
    }
    // Oniguruma's POSIX names ("alnum", "punct", ...) are sets that PCRE2 does not have; as script names
    // they fail to compile, and are refused there.
    return "sc:" + std::string(name);
  }

  void character_class() {
    atom_ = out_.size();
    out_ += '[';
    if (peek() == '^') out_ += take();
    if (peek() == ']') refuse("pattern class begins with ]");
    while (true) {
      const char c = take();
      if (c == ']') break;
      if (c == '[') refuse("pattern has a class within a class");
      if (c == '&' && peek() == '&') refuse("pattern has an intersection of classes");
      if (c == '\\') {
        class_escape();
      } else {
        out_ += c;
      }
    }
    out_ += ']';
  }

  void class_escape() {
    const char c = take();
    switch (c) {
      case 's':
        out_ += kSpace;
        return;
      case 'S':
        out_ += kNotSpace;
        return;
      case 'w':
        out_ += kWord;
        return;
      case 'h':
        out_ += kHex;
        return;
      case 'b':
        out_ += "\\x{08}";
        return;
      default:
        common_escape(c);
    }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = kNoAtom;       // where the last repeatable thing begins in out_
  std::vector<std::size_t> groups_;  // where the open groups begin in out_
};

}  // namespace

std::string translate_pattern(std::string_view oniguruma) { return Translator(oniguruma).run(); }

}  // namespace verbatim::local_engine
