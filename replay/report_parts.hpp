#pragma once
// Small pieces that the reports share: tables, facts, plurals.

#include "replay/html.hpp"

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::replay {

/// "1 answer", "2 answers".
[[nodiscard]] inline std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

[[nodiscard]] inline std::string joined(const std::vector<std::string>& words,
                                        const std::string& separator) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : separator) + word;
  return all;
}

[[nodiscard]] inline Html mono(const std::string& shown) {
  return element("span", {{"class", "mono"}}, text(shown));
}

[[nodiscard]] inline Html cell(const Html& content) { return element("td", content); }
[[nodiscard]] inline Html number_cell(const std::string& shown) {
  return element("td", {{"class", "number"}}, text(shown));
}

/// Heads of columns: name, and the class "number" where a column holds numbers.
[[nodiscard]] inline Html head(std::initializer_list<std::pair<const char*, const char*>> names) {
  Html row;
  for (const auto& [name, style] : names) row += element("th", {{"class", style}}, text(name));
  return element("thead", element("tr", row));
}

[[nodiscard]] inline Html table(const Html& heads, const Html& rows) {
  return element("div", {{"class", "scroll"}}, element("table", heads + element("tbody", rows)));
}

/// A list of names and values.
class FactList {
 public:
  void add(const char* name, const Html& value) {
    list_ += element("dt", text(name)) + element("dd", value);
  }
  void add(const char* name, const std::string& value) { add(name, text(value)); }
  /// What answers told, and how many of them: one entry each, up to as many as one reads.
  void add_counts(const char* name, const std::map<std::string, std::size_t>& counts) {
    constexpr std::size_t kShown = 20;
    std::size_t shown = 0;
    for (const auto& [told, count] : counts) {
      if (shown++ == kShown)
        return add(name, "\xE2\x80\xA6 " + std::to_string(counts.size() - kShown) + " more");
      add(name, told + " (" + plural(count, "answer") + ")");
    }
  }
  [[nodiscard]] Html html() const { return element("dl", {{"class", "facts"}}, list_); }

 private:
  Html list_;
};

}  // namespace verbatim::replay
