#include "gateway/body_parts.hpp"

#include "gateway/http.hpp"
#include "gateway/json_scan.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <string>

namespace verbatim::gateway {

namespace {

using Kind = BodyPart::Kind;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::size_t past_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

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
  const std::size_t start = past_byte_order_mark(body);
  each_line(body.substr(start), [&](std::size_t line_begin, std::size_t line_end) {
    const std::size_t begin = start + line_begin;
    const std::size_t end = start + line_end;
    const std::string_view line = body.substr(begin, end - begin);
    if (line.empty()) {
      data_lines = 0;
      return;
    }
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::size_t value =
        std::min(end, begin + colon + (line.substr(colon).starts_with(": ") ? 2 : 1));
    const Kind kind = kind_of(body.substr(value, end - value));
    if (name == "data") {
      parts.push_back({value, end, kind});
      if (++data_lines == 1) first_data = parts.size() - 1;
      if (data_lines > 1) parts[first_data].kind = parts.back().kind = Kind::unreadable;
    } else if (name.empty() || name == "event" || name == "id" || name == "retry") {
      parts.push_back({value, end, kind, true});
    } else {
      parts.push_back({begin, end, Kind::unreadable, true});
    }
  });
  return parts;
}

bool has_data_line(std::string_view body) {
  bool found = false;
  each_line(body, [&](std::size_t begin, std::size_t end) {
    found = found || body.substr(begin, end - begin).starts_with("data:");
  });
  return found;
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

BodyParts take_apart(std::string_view content_type, std::string_view body, bool answer) {
  if (is_json(body)) return {BodyForm::json, {{0, body.size(), Kind::json}}};
  if (begins_as_json(body.substr(past_byte_order_mark(body)))) {
    auto lines = parts_of_lines(body);
    if (!lines.empty()) return {BodyForm::lines, std::move(lines)};
  } else if (answer && (has_type(content_type, "text/event-stream") || has_data_line(body))) {
    return {BodyForm::events, parts_of_events(body)};
  } else if ((content_type.empty() || has_type(content_type, "text/")) && is_utf8(body) &&
             body.find('\0') == std::string_view::npos) {
    return {BodyForm::text, {{0, body.size(), Kind::text}}};
  }
  return {BodyForm::opaque, {{0, body.size(), Kind::unreadable}}};
}

}  // namespace verbatim::gateway
