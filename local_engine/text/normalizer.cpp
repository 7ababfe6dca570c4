#include "local_engine/text/normalizer.hpp"

#include "local_engine/text/byte_level.hpp"
#include "local_engine/text/json_fields.hpp"
#include "local_engine/text/pattern.hpp"
#include "local_engine/text/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

namespace verbatim::local_engine {

namespace {

constexpr int kNestingMax = 16;

int combining_class(utf8proc_int32_t value) {
  return utf8proc_get_property(value)->combining_class;
}

/// utf8proc orders marks by exchanging neighbours, which takes quadratic time on a long run of them.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  for (std::size_t at = 0; at < points.size();) {
    if (combining_class(points[at]) == 0) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < points.size() && combining_class(points[end]) != 0) ++end;
    if (end - at > 1) {
      std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(at),
                       points.begin() + static_cast<std::ptrdiff_t>(end),
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    at = end;
  }
}

bool is_below(std::string_view text, char32_t limit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    if (point.value >= limit) return false;
    at += point.size;
  }
  return true;
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    return normalize_unicode(std::move(text), form_);
  }

 private:
  UnicodeForm form_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : prefix_(std::move(text)) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    return text.empty() ? text : prefix_ + text;
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    std::vector<Span> spans;
    pattern_.find_all(text, spans);
    if (spans.empty()) return text;
    std::string out;
    out.reserve(text.size() + spans.size() * content_.size());
    std::size_t at = 0;
    for (const Span& span : spans) {
      out.append(text, at, span.start - at);
      out += content_;
      at = span.end;
    }
    out.append(text, at);
    return out;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    std::size_t start = 0;
    std::size_t end = text.size();
    while (left_ && start < end) {
      const CodePoint point = code_point_at(text, start);
      if (!is_white_space(point.value)) break;
      start += point.size;
    }
    while (right_ && end > start) {
      const CodePoint point = code_point_before(text, end);
      if (!is_white_space(point.value)) break;
      end -= point.size;
    }
    return text.substr(start, end - start);
  }

 private:
  bool left_;
  bool right_;
};

/// Applies a function to every code point.
template <class Map>
class PerCharacter final : public Normalizer {
 public:
  explicit PerCharacter(Map map) : map_(map) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      map_(out, point.value);
      at += point.size;
    }
    return out;
  }

 private:
  Map map_;
};

/// Character by character, so without the rule for a final sigma, as Rust's char::to_lowercase.
void append_lowercase(std::string& out, char32_t value) {
  if (value == 0x130) {
    out += "i\xcc\x87";  // the one character whose lower case is two
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
}

void append_unless_mark(std::string& out, char32_t value) {
  if (!is_nonspacing_mark(value)) append_utf8(out, value);
}

class ByteCharacters final : public Normalizer {
 public:
  [[nodiscard]] std::string apply(std::string text) const override {
    return to_byte_characters(text);
  }
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> parts)
      : parts_(std::move(parts)) {}
  [[nodiscard]] std::string apply(std::string text) const override {
    for (const auto& part : parts_) text = part->apply(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

std::unique_ptr<const Normalizer> read(const Json& json, int depth) {
  if (depth > kNestingMax) malformed("tokenizer.json: normalizers are nested too deeply");
  const std::string type = required_string(json, "type");
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> parts;
    for (const Json& part : array(json, "normalizers")) parts.push_back(read(part, depth + 1));
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(UnicodeForm::nfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(UnicodeForm::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(UnicodeForm::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(UnicodeForm::nfkd);
  if (type == "Prepend") return std::make_unique<Prepend>(required_string(json, "prepend"));
  if (type == "Replace") {
    return std::make_unique<Replace>(read_pattern(required(json, "pattern")),
                                     required_string(json, "content"));
  }
  if (type == "Strip") {
    return std::make_unique<Strip>(boolean(json, "strip_left", true),
                                   boolean(json, "strip_right", true));
  }
  if (type == "Lowercase")
    return std::make_unique<PerCharacter<decltype(&append_lowercase)>>(append_lowercase);
  if (type == "StripAccents")
    return std::make_unique<PerCharacter<decltype(&append_unless_mark)>>(append_unless_mark);
  if (type == "ByteLevel") return std::make_unique<ByteCharacters>();
  refuse("normalizer " + type + " is not supported");
}

}  // namespace

std::string normalize_unicode(std::string text, UnicodeForm form) {
  const bool compose = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  // Nothing below these changes under the form in question.
  if (is_below(text, compose && !compatible ? 0x300 : compatible ? 0xa0 : 0xc0)) return text;

  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size() + 32);
  std::array<utf8proc_int32_t, 32> parts{};  // the longest decomposition is 18 (U+FDFA)
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.size;
    const auto value = static_cast<utf8proc_int32_t>(point.value);
    int boundary = 0;
    const auto count = utf8proc_decompose_char(value, parts.data(), 32, options, &boundary);
    if (count <= 0 || count > 32) {
      points.push_back(value);
    } else {
      points.insert(points.end(), parts.begin(), parts.begin() + count);
    }
  }
  order_marks(points);
  auto size = static_cast<utf8proc_ssize_t>(points.size());
  if (compose) {
    size = utf8proc_normalize_utf32(
        points.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(out, static_cast<char32_t>(points[static_cast<std::size_t>(i)]));
  }
  return out;
}

std::unique_ptr<const Normalizer> read_normalizer(const Json* json) {
  return json == nullptr ? nullptr : read(*json, 0);
}

}  // namespace verbatim::local_engine
