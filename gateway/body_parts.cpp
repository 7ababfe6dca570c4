#include "gateway/body_parts.hpp"

#include "gateway/http.hpp"
#include "gateway/json_scan.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <string>

namespace verbatim::gateway {

namespace {

using Kind = BodyPart::Kind;

bool begins_as_json(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && std::string_view("{[\"").find(text[at]) < 3;
}

bool has_type(std::string_view content_type, std::string_view wanted) {
  return content_type.size() >= wanted.size() &&
         same_word(content_type.substr(0, wanted.size()), wanted);
}

/// A piece that should be JSON if it looks so, and else is text.
Kind kind_of(std::string_view text) {
  if (!begins_as_json(text) || text == "[DONE]") return Kind::text;
  return is_json(text) ? Kind::json : Kind::unreadable;
}

/// Goes over the lines of a text, which end with LF, CR or CRLF: `visit(begin, end)`, without the line's end.
template <class Visit>
void each_line(std::string_view text, Visit visit) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    visit(at, end);
    at = end + 1;
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++at;
  }
}

std::vector<BodyPart> parts_of_events(std::string_view body) {
  std::vector<BodyPart> parts;
  std::size_t data_lines = 0;  // of the event
  std::size_t first_data = 0;
  each_line(body, [&](std::size_t begin, std::size_t end) {
    const std::string_view line = body.substr(begin, end - begin);
    if (line.empty()) {
      data_lines = 0;
    } else if (!line.starts_with("data:")) {
      parts.push_back({begin, end, Kind::text});
    } else {
      const std::size_t value = begin + (line.starts_with("data: ") ? 6 : 5);
      parts.push_back({value, end, kind_of(body.substr(value, end - value))});
      if (++data_lines == 1) first_data = parts.size() - 1;
      if (data_lines > 1) parts[first_data].kind = parts.back().kind = Kind::unreadable;
    }
  });
  return parts;
}

/// A JSON value a line; nothing if it is not that.
std::vector<BodyPart> parts_of_lines(std::string_view body) {
  std::vector<BodyPart> parts;
  bool all = true;
  each_line(body, [&](std::size_t begin, std::size_t end) {
    const std::string_view line = body.substr(begin, end - begin);
    if (!all || line.find_first_not_of(" \t") == std::string_view::npos) return;
    all = is_json(line);
    parts.push_back({begin, end, Kind::json});
  });
  return all ? parts : std::vector<BodyPart>();
}

}  // namespace

BodyParts take_apart(std::string_view content_type, std::string_view body) {
  if (has_type(content_type, "text/event-stream")) {
    return {BodyForm::events, parts_of_events(body)};
  }
  if (is_json(body)) return {BodyForm::json, {{0, body.size(), Kind::json}}};
  if (begins_as_json(body)) {
    auto lines = parts_of_lines(body);
    if (!lines.empty()) return {BodyForm::lines, std::move(lines)};
  } else if ((content_type.empty() || has_type(content_type, "text/")) && is_utf8(body) &&
             body.find('\0') == std::string_view::npos) {
    return {BodyForm::text, {{0, body.size(), Kind::text}}};
  }
  return {BodyForm::opaque, {{0, body.size(), Kind::unreadable}}};
}

}  // namespace verbatim::gateway
