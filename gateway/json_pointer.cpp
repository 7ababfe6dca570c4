#include "gateway/json_pointer.hpp"

#include <algorithm>

namespace verbatim::gateway {

Result<JsonPointer> JsonPointer::parse(std::string_view text) {
  std::vector<std::string> steps;
  const auto refuse = [&] {
    return Error{Errc::invalid_input,
                 "'" + std::string(text.substr(0, 128)) + "' is no JSON pointer", "",
                 "for example /messages/*/name; in a name ~1 stands for '/' and ~0 for '~'"};
  };
  if (!text.empty() && text.front() != '/') return refuse();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      steps.emplace_back();
    } else if (text[i] != '~') {
      steps.back().push_back(text[i]);
    } else {
      const char escaped = ++i < text.size() ? text[i] : '\0';
      if (escaped != '0' && escaped != '1') return refuse();
      steps.back().push_back(escaped == '0' ? '~' : '/');
    }
  }
  return JsonPointer(std::move(steps));
}

std::string JsonPointer::str() const {
  std::string out;
  for (const std::string& step : steps_) {
    out.push_back('/');
    for (const char c : step) {
      if (c == '~') {
        out += "~0";
      } else if (c == '/') {
        out += "~1";
      } else {
        out.push_back(c);
      }
    }
  }
  return out;
}

bool JsonPointer::matches(const std::vector<std::string>& path) const {
  return std::equal(
      steps_.begin(), steps_.end(), path.begin(), path.end(),
      [](const std::string& step, const std::string& name) { return step == "*" || step == name; });
}

}  // namespace verbatim::gateway
