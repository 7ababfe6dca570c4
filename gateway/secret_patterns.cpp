#include "gateway/secret_patterns.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::array<std::pair<SecretKind, std::string_view>, 3> kNames = {
    {{SecretKind::card_number, "card_number"},
     {SecretKind::email, "email"},
     {SecretKind::api_key, "api_key"}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }
bool is_key_char(char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '_'; }

// ---- card numbers

constexpr std::size_t kCardDigitsMin = 13, kCardDigitsMax = 19;

/// A digit at a place, and how many bytes it takes; -1 where there is none.
std::pair<int, std::size_t> digit_at(std::string_view text, std::size_t at) {
  if (at < text.size() && is_digit(text[at])) return {text[at] - '0', 1};
  if (text.substr(at, 2) == "\xEF\xBC" && at + 2 < text.size()) {  // full width: U+FF10 to U+FF19
    const auto last = static_cast<unsigned char>(text[at + 2]);
    if (last >= 0x90 && last <= 0x99) return {last - 0x90, 3};
  }
  return {-1, 0};
}

/// How many bytes a blank or dash takes; 0 where there is none.
std::size_t separator_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 0;
  if (text[at] == ' ' || text[at] == '-' || text[at] == '\t') return 1;
  if (text.substr(at, 2) == "\xC2\xA0") return 2;
  if (text.substr(at, 2) == "\xE2\x80" && at + 2 < text.size()) {
    const auto last = static_cast<unsigned char>(text[at + 2]);
    if (last <= 0x95 || last == 0xAF) return 3;  // U+2000 to U+2015, U+202F
  }
  return 0;
}

bool passes_luhn(const std::array<int, kCardDigitsMax>& digits, std::size_t count) {
  int sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    int digit = digits[count - 1 - i];
    if (i % 2 == 1) digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
    sum += digit;
  }
  return sum % 10 == 0;
}

/// Where the longest card number that begins here ends; `at` if none does.
std::size_t card_end(std::string_view text, std::size_t at) {
  std::array<int, kCardDigitsMax> digits{};
  std::size_t count = 0;
  std::size_t end = at;
  for (std::size_t i = at; count < kCardDigitsMax;) {
    const auto [digit, bytes] = digit_at(text, i);
    if (digit < 0) break;
    digits[count++] = digit;
    i += bytes;
    if (digit_at(text, i).first >= 0) continue;  // in the middle of a group
    if (count >= kCardDigitsMin && passes_luhn(digits, count)) end = i;
    i += separator_at(text, i);
  }
  return digits[0] >= 2 && digits[0] <= 6 ? end : at;
}

void find_cards(std::string_view text, std::vector<SecretSpan>& out) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = digit_at(text, at).second;
    if (bytes == 0) {
      ++at;
      continue;
    }
    // The digits behind a decimal point are a fraction.
    const bool fraction = at >= 2 && text[at - 1] == '.' && is_digit(text[at - 2]);
    const std::size_t end = fraction ? at : card_end(text, at);
    // From each group anew: a number before a card may make another one with its first groups.
    if (end > at && !out.empty() && out.back().end > at) {
      out.back().end = std::max(out.back().end, end);
    } else if (end > at) {
      out.push_back({at, end, SecretKind::card_number});
    }
    while (const std::size_t more = digit_at(text, at).second) at += more;
  }
}

// ---- e-mail addresses

bool is_local_char(char c) {
  return is_digit(c) || is_letter(c) || is_beyond_ascii(c) ||
         std::string_view("!#$%&'*+-/=?^_`{|}~.").find(c) != std::string_view::npos;
}
bool is_label_char(char c) { return is_key_char(c) || is_beyond_ascii(c); }

void find_emails(std::string_view text, std::vector<SecretSpan>& out) {
  std::size_t free_from = 0;  // what stands before belongs to the address before
  for (std::size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    std::size_t begin = at;
    while (begin > free_from && is_local_char(text[begin - 1])) --begin;
    std::size_t end = at + 1;
    std::size_t dots = 0, label = 0;
    while (end < text.size() && (is_label_char(text[end]) || (text[end] == '.' && label > 0))) {
      dots += text[end] == '.' ? 1 : 0;
      label = text[end] == '.' ? 0 : label + 1;
      ++end;
    }
    if (label == 0 && end > at + 1) {  // a full stop ends the sentence, not the domain
      --end;
      --dots;
    }
    if (begin == at || end == at + 1 || dots == 0) continue;
    out.push_back({begin, end, SecretKind::email});
    free_from = end;
  }
}

// ---- API keys

struct KeyForm {
  std::string_view prefix;
  std::size_t more_min;  // characters behind it
};
constexpr std::array<KeyForm, 28> kKeyForms = {{
    {"sk-", 16},    {"sk_live_", 16}, {"sk_test_", 16}, {"pk_live_", 16},    {"rk_live_", 16},
    {"whsec_", 16}, {"AKIA", 16},     {"ASIA", 16},     {"AIza", 30},        {"ya29.", 20},
    {"ghp_", 30},   {"gho_", 30},     {"ghu_", 30},     {"ghs_", 30},        {"ghr_", 30},
    {"glpat-", 16}, {"xoxb-", 16},    {"xoxp-", 16},    {"xoxa-", 16},       {"xoxr-", 16},
    {"xoxs-", 16},  {"hf_", 24},      {"npm_", 30},     {"github_pat_", 30}, {"gsk_", 24},
    {"xai-", 24},   {"vb-", 16},      {"AQ.", 30},
}};
constexpr std::string_view kPemBegin = "-----BEGIN ", kPemKey = "PRIVATE KEY-----";

std::size_t end_of_key_chars(std::string_view text, std::size_t at) {
  while (at < text.size() && is_key_char(text[at])) ++at;
  return at;
}

/// JSON Web Tokens: three parts in base64url (signed) or five (encrypted, the second may be empty), the first of which
/// begins as `{"` does. Asked at rising places: what follows a run of key characters is read once, wherever in it a token
/// could begin.
class TokenSearch {
 public:
  explicit TokenSearch(std::string_view text) : text_(text) {}
  /// Where the token that begins here ends; `at` if none does.
  std::size_t end_from(std::size_t at) {
    if (text_.substr(at, 3) != "eyJ") return at;
    if (at >= first_part_end_) {
      first_part_end_ = end_of_key_chars(text_, at);
      end_ = end_of_others();
    }
    return first_part_end_ - at < kPartMin ? at : std::max(at, end_);
  }

 private:
  static constexpr std::size_t kPartMin = 8;
  /// Of the parts behind the first; 0 if there are not enough.
  [[nodiscard]] std::size_t end_of_others() const {
    std::size_t end = first_part_end_;
    std::size_t parts = 1;
    for (; parts < 5 && end < text_.size() && text_[end] == '.'; ++parts) {
      const std::size_t next = end_of_key_chars(text_, end + 1);
      const std::size_t length = next - (end + 1);
      if (length < kPartMin && (length > 0 || parts > 1)) break;
      end = next;
    }
    return parts < 3 ? 0 : end;
  }

  std::string_view text_;
  std::size_t first_part_end_ = 0, end_ = 0;
};

std::size_t pem_end(std::string_view text, std::size_t at) {
  if (text.substr(at, kPemBegin.size()) != kPemBegin) return at;
  const std::size_t title = text.substr(at, 64).find(kPemKey);
  if (title == std::string_view::npos) return at;
  const std::size_t last = text.find(kPemKey, at + title + kPemKey.size());
  return last == std::string_view::npos ? text.size() : last + kPemKey.size();  // cut: all of it
}

std::size_t key_end(std::string_view text, std::size_t at, TokenSearch& tokens) {
  for (const KeyForm& form : kKeyForms) {
    if (text.substr(at, form.prefix.size()) != form.prefix) continue;
    const std::size_t from = at + form.prefix.size();
    const std::size_t end = end_of_key_chars(text, from);
    if (end - from >= form.more_min) return end;
  }
  return std::max(tokens.end_from(at), pem_end(text, at));
}

void find_keys(std::string_view text, std::vector<SecretSpan>& out) {
  TokenSearch tokens(text);
  for (std::size_t at = 0; at < text.size();) {
    // A key begins where a word does: not in the middle of "task-".
    const bool word_begins = at == 0 || !(is_digit(text[at - 1]) || is_letter(text[at - 1]));
    const std::size_t end = word_begins ? key_end(text, at, tokens) : at;
    if (end > at) {
      out.push_back({at, end, SecretKind::api_key});
      at = end;
    } else {
      ++at;
    }
  }
}

}  // namespace

std::string_view secret_kind_name(SecretKind kind) {
  for (const auto& [each, name] : kNames) {
    if (each == kind) return name;
  }
  return "";
}

std::optional<SecretKind> secret_kind_named(std::string_view name) {
  for (const auto& [kind, each] : kNames) {
    if (each == name) return kind;
  }
  return std::nullopt;
}

std::vector<SecretSpan> find_secrets(std::string_view text, SecretKinds kinds) {
  std::vector<SecretSpan> out;
  const auto wanted = [&](SecretKind kind) { return kinds[static_cast<std::size_t>(kind)]; };
  if (wanted(SecretKind::card_number)) find_cards(text, out);
  if (wanted(SecretKind::email)) find_emails(text, out);
  if (wanted(SecretKind::api_key)) find_keys(text, out);
  return out;
}

}  // namespace verbatim::gateway
