#pragma once
// Server-sent events (HTML Living Standard, section 9.2): where events begin and end in the bytes
// of a stream, and which bytes must be held back because they begin the stream's terminal event.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// Offsets into the body.
struct EventSpan {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< behind the blank line; taken between its CR and LF, before the LF
};

/// Follows a stream byte by byte, in pieces of any size. Lines end with LF, CR or CRLF.
class SseScanner {
 public:
  /// Calls nothing back: found events are appended to events(). O(bytes.size()).
  void push(std::string_view bytes);

  /// Events that ended since the last take. Blank lines and lone comments are no events.
  [[nodiscard]] std::vector<EventSpan> take_events();

  /// Bytes from here on must not be given out yet: they begin a terminal event, or a line that may
  /// still become one. Everything before may go.
  [[nodiscard]] std::size_t free_until() const;

  /// The terminal event has been read whole. Any event counts that the dialects use for it:
  /// `[DONE]`, message_stop, response.completed, response.incomplete, response.failed.
  [[nodiscard]] bool terminal_seen() const { return terminal_ended_; }

 private:
  void end_line(std::size_t next);

  std::size_t at_ = 0;           // bytes pushed so far
  std::size_t line_begin_ = 0;   // of the line being read
  std::size_t event_begin_ = 0;  // of the event being read
  std::string line_;  // the line being read, at most as long as the longest marker and one more
  bool line_is_empty_ = true;
  bool after_cr_ = false;  // an LF now belongs to the CR before it
  bool event_has_fields_ = false;
  std::optional<std::size_t> terminal_begin_;
  bool terminal_ended_ = false;
  std::vector<EventSpan> events_;
};

/// An event's fields.
class SseEvent {
 public:
  [[nodiscard]] std::string_view event() const { return event_; }
  /// Several data lines are joined by LF.
  [[nodiscard]] std::string_view data() const { return joined_.empty() ? data_ : joined_; }

 private:
  friend SseEvent parse_sse_event(std::string_view text);
  std::string_view event_;
  std::string_view data_;  // of the first data line, borrowed from the text
  std::string joined_;     // only if there were several
};

/// Parses the text of one event, as SseScanner found it. The result borrows from it.
[[nodiscard]] SseEvent parse_sse_event(std::string_view text);

}  // namespace verbatim::gateway
