#pragma once
// An answer on its way to the client: given out as it comes, kept for the record, and its end held
// back until the record is durable.
//
// What is held back is the stream's terminal event where the protocol has one; else the last piece
// of the body, and at least the final chunk, or the head if there is nothing else.

#include "gateway/body_sample.hpp"
#include "gateway/client_connection.hpp"
#include "gateway/config.hpp"
#include "gateway/response_facts.hpp"
#include "gateway/sse.hpp"
#include "gateway/stream_comments.hpp"
#include "gateway/upstream.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

/// With these bytes every answer begins.
inline constexpr std::string_view kStatusLineOpening = "HTTP/1.1 ";

/// On the gateway's thread; for one exchange.
class Tee final : public AnswerSink {
 public:
  struct Options {
    std::string record_id;
    bool head_request = false;  ///< the answer has no body whatever its head says
    int client_version = 11;
    bool keep_alive = true;  ///< what the client asked for, and we are ready to do
    Api api = Api::generic;
    std::int64_t arrived_us = 0;  ///< steady time of the request
    std::uint64_t body_bytes_max = 0;
    /// A longer body that nobody here reads is given out and forgotten, but for a sample. Such a body may have any length.
    std::uint64_t sample_above = UINT64_MAX;
    std::size_t sample_bytes_max = 0;
    std::chrono::milliseconds write_within{0};
    Deadlines* deadlines = nullptr;              ///< needed where comment_after is not 0
    std::chrono::milliseconds comment_after{0};  ///< StreamComments; 0: none
  };
  Tee(ClientConnection& client, const Clock& clock, Options options);

  /// `hit`, `miss` or `bypass`: before the first on_head().
  void set_cache_status(std::string_view status) { cache_status_ = status; }
  /// Awaited once, before the first byte goes out; if false, nothing goes out.
  void set_gate(std::function<net::awaitable<bool>()> gate) { gate_ = std::move(gate); }

  void on_head(ResponseHead head, std::optional<std::uint64_t> length, bool to_eof) override;
  void on_body(std::string_view bytes) override;
  [[nodiscard]] net::awaitable<bool> flush(bool last) override;
  [[nodiscard]] bool terminal_seen() const override {
    return scanner_ && scanner_->terminal_seen();
  }
  [[nodiscard]] bool overflowed() const override { return overflowed_; }
  [[nodiscard]] bool head_given() const override { return head_given_; }

  /// Some of the answer has gone out: it cannot be replaced any more.
  [[nodiscard]] bool begun() const { return begun_; }
  /// Forgets an answer of which nothing has gone out; returns what had come of its body.
  std::string reset();

  /// Reads what can only be read of the whole: a JSON body, or a compressed stream.
  void read_whole(std::size_t decoded_bytes_max);
  /// The stream ended properly for HTTP, but not for its own protocol.
  [[nodiscard]] bool cut_short() const;

  [[nodiscard]] int status() const { return head_.status; }
  [[nodiscard]] bool is_stream() const { return stream_; }
  [[nodiscard]] const ResponseFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] const Fields& fields() const { return head_.fields; }
  [[nodiscard]] std::optional<std::int64_t> first_byte_us() const { return first_byte_us_; }
  /// Comments of the gateway's own that the client was sent.
  [[nodiscard]] std::size_t comments() const { return comments_ ? comments_->sent() : 0; }
  /// JSON array of [offset, microseconds] of the events: content `response.events`.
  /// `place`: where an offset into the body is in the body that is recorded.
  [[nodiscard]] std::string events_json(
      const std::function<std::size_t(std::size_t)>& place = nullptr) const;
  /// The body for the record; of a sampled one nothing, which has its beginning. Afterwards body() is empty. `all`: also
  /// what finish() will send.
  [[nodiscard]] std::string take_body(bool all);
  /// After take_body(): what is known of a body that was too long to be kept, its beginning included; null if it was
  /// kept.
  [[nodiscard]] BodySample* sample() { return sample_ ? &*sample_ : nullptr; }

  /// Sends what was held back, and the end. False if the client has gone.
  [[nodiscard]] net::awaitable<bool> finish();
  /// After finish(): the connection may serve another request.
  [[nodiscard]] bool keep_alive() const {
    return options_.keep_alive && framing_ != Framing::to_close;
  }
  /// The body's end is marked by the connection's end: a cut must be a reset.
  [[nodiscard]] bool needs_reset() const { return framing_ == Framing::to_close; }

 private:
  enum class Framing { none, length, chunked, to_close };

  void write_head(std::optional<std::uint64_t> length);
  void forget_what_was_sent();
  void watch_for_silence();
  [[nodiscard]] net::awaitable<bool> send(std::string_view bytes, bool end);

  ClientConnection& client_;
  const Clock& clock_;
  Options options_;
  std::string_view cache_status_ = "bypass";
  std::function<net::awaitable<bool>()> gate_;

  ResponseHead head_;  // as the client gets it
  std::string head_text_;
  bool head_given_ = false;
  bool begun_ = false;
  bool stream_ = false;  // text/event-stream
  bool coded_ = false;   // with a content coding: can be read only as a whole
  Framing framing_ = Framing::none;
  std::string body_;  // all that came; of a sampled body, what has not been given out
  std::optional<BodySample> sample_;
  std::size_t sent_ = 0;  // of body_, given out
  std::string tail_;      // of body_, after take_body(): what finish() sends
  std::optional<SseScanner> scanner_;
  std::vector<EventSpan> unread_events_;
  std::vector<std::pair<std::size_t, std::int64_t>> event_times_;
  ResponseFacts facts_;
  std::optional<std::int64_t> first_byte_us_;
  std::optional<StreamComments> comments_;
  bool overflowed_ = false;
};

}  // namespace verbatim::gateway
