#pragma once
// HTML put together so that text from outside stays text. For reports, which show what strangers wrote.

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace verbatim::replay {

/// A piece of finished HTML (or SVG). Made from text by text(), and from pieces by element(); from a literal of ours by
/// the constructor.
class Html {
 public:
  Html() = default;
  template <std::size_t size>
  explicit Html(const char (&literal)[size]) : html_(literal, size - 1) {}

  Html& operator+=(const Html& other) {
    html_ += other.html_;
    return *this;
  }
  friend Html operator+(Html a, const Html& b) { return std::move(a += b); }
  [[nodiscard]] const std::string& str() const { return html_; }
  [[nodiscard]] bool empty() const { return html_.empty(); }

 private:
  friend Html text(std::string_view utf8, const char* mark_tag);
  friend Html element(const char* tag,
                      std::initializer_list<std::pair<const char*, std::string>> attributes,
                      const Html& content);
  friend Html embed(std::string_view own);
  std::string html_;
};

/// Text as text: markup is escaped; bytes that are no UTF-8 become U+FFFD; characters that are not seen, or that change
/// the direction or order of others (controls, bidi, zero width, tags), are shown by their code point in an element
/// `mark_tag` of class "mark". Line feeds and tabs stay.
[[nodiscard]] Html text(std::string_view utf8, const char* mark_tag = "span");

/// <tag name="value">content</tag>; void elements of SVG are written with an end tag, which is the same. Values are escaped.
[[nodiscard]] Html element(const char* tag,
                           std::initializer_list<std::pair<const char*, std::string>> attributes,
                           const Html& content = {});
[[nodiscard]] inline Html element(const char* tag, const Html& content) {
  return element(tag, {}, content);
}

/// A file of ours that was embedded at build time, as it is.
[[nodiscard]] Html embed(std::string_view own);

/// Replaces each `{{name}}` of a template. Every hole must have its piece, and every piece its hole.
[[nodiscard]] std::string fill(std::string_view page, const std::map<std::string, Html>& pieces);

/// A number for people: 0.9312 with `digits` after the point, without locale.
[[nodiscard]] std::string fixed(double value, int digits);
/// "12.3 %"; "100 %" and "0 %" only when exact.
[[nodiscard]] std::string percent(double share);
/// The first `characters_max` characters, and an ellipsis where that cuts.
[[nodiscard]] std::string shortened(std::string_view utf8, std::size_t characters_max);

}  // namespace verbatim::replay
