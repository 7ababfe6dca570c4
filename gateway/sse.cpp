#include "gateway/sse.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace verbatim::gateway {

namespace {

/// Lines that begin a terminal event. Only these decide: `data` that merely looks like the end is
/// not one for any client.
constexpr std::array<std::string_view, 10> kTerminalLines = {
    "data: [DONE]",
    "data:[DONE]",
    "event: message_stop",
    "event:message_stop",
    "event: response.completed",
    "event:response.completed",
    "event: response.incomplete",
    "event:response.incomplete",
    "event: response.failed",
    "event:response.failed",
};
constexpr std::size_t kLineKept = 32;  // longer than any of them
constexpr std::string_view kBom = "\xEF\xBB\xBF";

bool is_terminal_line(std::string_view line) {
  return std::find(kTerminalLines.begin(), kTerminalLines.end(), line) != kTerminalLines.end();
}

bool may_become_terminal(std::string_view line) {
  return std::any_of(kTerminalLines.begin(), kTerminalLines.end(),
                     [&](std::string_view marker) { return marker.starts_with(line); });
}

}  // namespace

void SseScanner::push(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (std::exchange(after_cr_, false) && bytes[i] == '\n') {
      ++i;
      line_begin_ = at_ + i;
      if (!event_has_fields_) event_begin_ = line_begin_;
      // The LF belongs to the event that the CR ended.
      if (!events_.empty() && events_.back().end + 1 == line_begin_)
        events_.back().end = line_begin_;
      continue;
    }
    const std::size_t end = std::min(bytes.find_first_of("\r\n", i), bytes.size());
    const std::string_view part = bytes.substr(i, end - i);
    if (line_.size() < kLineKept) line_.append(part.substr(0, kLineKept - line_.size()));
    if (!part.empty()) line_is_empty_ = false;
    i = end;
    if (i == bytes.size()) break;
    after_cr_ = bytes[i] == '\r';
    ++i;
    end_line(at_ + i);
  }
  at_ += bytes.size();
}

void SseScanner::end_line(std::size_t next) {
  std::string_view line = line_;
  if (line_begin_ == 0 && line.starts_with(kBom)) line.remove_prefix(kBom.size());
  if (line_is_empty_) {
    if (event_has_fields_) {
      events_.push_back({event_begin_, next});
      if (terminal_begin_) terminal_ended_ = true;
    }
    event_has_fields_ = false;
    event_begin_ = next;
  } else if (!line.starts_with(':')) {
    event_has_fields_ = true;
    if (!terminal_begin_ && is_terminal_line(line)) terminal_begin_ = line_begin_;
  }
  line_.clear();
  line_is_empty_ = true;
  line_begin_ = next;
}

std::vector<EventSpan> SseScanner::take_events() { return std::exchange(events_, {}); }

std::size_t SseScanner::free_until() const {
  if (terminal_begin_) return *terminal_begin_;
  std::string_view line = line_;
  // A byte order mark belongs to the event behind it.
  if (line_begin_ == 0 && !line.empty() && kBom.starts_with(line)) return 0;
  if (line_begin_ == 0 && line.starts_with(kBom)) line.remove_prefix(kBom.size());
  if (!line.empty() && may_become_terminal(line)) return line_begin_;
  return at_;
}

SseEvent parse_sse_event(std::string_view text) {
  SseEvent event;
  bool has_data = false;
  if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    std::size_t next = std::min(end + 1, text.size());
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++next;
    text.remove_prefix(next);

    const std::size_t colon = std::min(line.find(':'), line.size());
    std::string_view value = line.substr(std::min(colon + 1, line.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    const std::string_view name = line.substr(0, colon);
    if (name == "event") {
      event.event_ = value;
    } else if (name == "data") {
      if (!has_data) {
        event.data_ = value;
      } else {
        if (event.joined_.empty()) event.joined_ = event.data_;
        event.joined_.append("\n").append(value);
      }
      has_data = true;
    }
  }
  return event;
}

}  // namespace verbatim::gateway
