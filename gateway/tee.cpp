#include "gateway/tee.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/header_rules.hpp"

#include <string_view>

namespace verbatim::gateway {

namespace {

constexpr std::string_view kFinalChunk = "0\r\n\r\n";
constexpr int kSwitchingProtocols = 101;

bool starts_with_word(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_word(text.substr(0, prefix.size()), prefix);
}

}  // namespace

Tee::Tee(ClientConnection& client, const Clock& clock, Options options)
    : client_(client), clock_(clock), options_(std::move(options)), facts_(options_.api) {}

void Tee::on_head(ResponseHead head, std::optional<std::uint64_t> length, bool to_eof) {
  first_byte_us_ = clock_.steady_us() - options_.arrived_us;
  head_ = std::move(head);
  head_given_ = true;
  facts_.read_head(head_);
  strip_hop_by_hop(head_.fields);
  if (head_.status == kSwitchingProtocols) {  // of this hop as of the one before
    head_.fields.add("connection", "Upgrade");
    head_.fields.add("upgrade", "websocket");
  }
  head_.fields.remove("x-verbatim-record");  // ours alone: never the upstream's
  head_.fields.remove("x-verbatim-cache");

  const std::string_view coding = head_.fields.get("content-encoding");
  coded_ = !coding.empty() && !same_word(coding, "identity");
  stream_ = starts_with_word(head_.fields.get("content-type"), "text/event-stream");
  if (stream_ && !coded_) scanner_.emplace();

  const bool no_body = options_.head_request || head_.status == 204 || head_.status == 304 ||
                       head_.status == kSwitchingProtocols;
  if (no_body) {
    framing_ = Framing::none;
  } else if (length && !to_eof) {
    framing_ = Framing::length;
  } else if (options_.client_version >= 11) {
    framing_ = Framing::chunked;
  } else {
    framing_ = Framing::to_close;
  }
  write_head(length);
}

void Tee::write_head(std::optional<std::uint64_t> length) {
  Fields& fields = head_.fields;
  if (stream_) {
    // Proxies in front of us must not collect a stream.
    if (!fields.has("cache-control")) fields.add("cache-control", "no-cache");
    if (!fields.has("x-accel-buffering")) fields.add("x-accel-buffering", "no");
  }
  if (framing_ == Framing::chunked) fields.add("transfer-encoding", "chunked");
  // The answer to HEAD says what that to GET would (RFC 9110 section 8.6).
  const bool tells_length = framing_ == Framing::length || options_.head_request;
  if (tells_length && length && !fields.has("content-length")) {
    fields.add("content-length", std::to_string(*length));
  }
  fields.add("x-verbatim-record", options_.record_id);
  fields.add("x-verbatim-cache", cache_status_);
  if (head_.status == kSwitchingProtocols) {
    // The connection is not HTTP's any more.
  } else if (!keep_alive()) {
    fields.add("connection", "close");
  } else if (options_.client_version < 11) {
    fields.add("connection", "keep-alive");
  }
  head_text_.reserve(512);
  head_text_.append(kStatusLineOpening).append(std::to_string(head_.status)).append(" ");
  head_text_.append(head_.reason).append("\r\n");
  for (const Field& field : fields.all()) {
    head_text_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  head_text_.append("\r\n");
}

void Tee::on_body(std::string_view bytes) {
  if (framing_ == Framing::none) return;  // the local engine's, or the gateway's own, for HEAD
  if (body_.size() + bytes.size() > options_.body_bytes_max) {
    overflowed_ = true;
    return;
  }
  body_.append(bytes);
  if (scanner_) scanner_->push(bytes);
}

net::awaitable<bool> Tee::flush(bool last) {
  if (comments_) co_await comments_->pause();
  if (scanner_) {
    const std::int64_t now_us = clock_.steady_us() - options_.arrived_us;
    for (const EventSpan& span : scanner_->take_events()) {
      event_times_.emplace_back(span.begin, now_us);
      unread_events_.push_back(span);
    }
  } else if (stream_ && body_.size() > sent_) {
    // Compressed: where its events begin cannot be seen, so the pieces are timed as they came.
    event_times_.emplace_back(sent_, clock_.steady_us() - options_.arrived_us);
  }
  bool there = !client_.gone();
  const std::size_t until = scanner_ ? scanner_->free_until() : body_.size();
  // What came whole, and of which nothing is out, goes out in one piece once it is recorded.
  const bool may_go = !last || (scanner_ && begun_);
  if (may_go && there && (until > sent_ || !head_text_.empty()) && head_given_) {
    if (gate_) {
      const auto gate = std::exchange(gate_, nullptr);
      there = co_await gate();
    }
    if (there) {
      const std::size_t from = std::exchange(sent_, until);
      there = co_await send(std::string_view(body_).substr(from, until - from), false);
      if (sample_ || body_.size() > options_.sample_above) forget_what_was_sent();
    }
  }
  if (!last) watch_for_silence();
  // Off the way of the bytes: they have gone.
  for (const EventSpan& span : std::exchange(unread_events_, {})) {
    facts_.read_event(std::string_view(body_).substr(span.begin, span.end - span.begin));
  }
  co_return there;
}

/// A comment may stand wherever a line may begin.
void Tee::watch_for_silence() {
  if (options_.comment_after.count() == 0 || !scanner_ || !begun_ || sample_) return;
  if (framing_ != Framing::chunked && framing_ != Framing::to_close) return;
  if (sent_ > 0 && body_[sent_ - 1] != '\n') return;
  if (!comments_) {
    comments_.emplace(client_, *options_.deadlines, options_.comment_after, options_.write_within);
  }
  comments_->watch(framing_ == Framing::chunked);
}

void Tee::forget_what_was_sent() {
  if (!may_stream_body(options_.api, head_.fields) || stream_) return;
  if (!sample_) sample_.emplace(options_.sample_bytes_max);
  sample_->add(std::string_view(body_).substr(0, sent_));
  body_.erase(0, std::exchange(sent_, 0));
}

net::awaitable<bool> Tee::send(std::string_view bytes, bool end) {
  begun_ = true;
  const std::string head = std::exchange(head_text_, {});
  std::vector<net::const_buffer> pieces;
  pieces.reserve(5);
  if (!head.empty()) pieces.push_back(net::buffer(head));
  const std::string prefix =
      framing_ == Framing::chunked && !bytes.empty() ? chunk_prefix(bytes.size()) : std::string();
  if (framing_ != Framing::none && !bytes.empty()) {
    if (!prefix.empty()) pieces.push_back(net::buffer(prefix));
    pieces.push_back(net::buffer(bytes.data(), bytes.size()));
    if (!prefix.empty()) pieces.push_back(net::buffer("\r\n", 2));
  }
  if (end && framing_ == Framing::chunked) {
    pieces.push_back(net::buffer(kFinalChunk.data(), kFinalChunk.size()));
  }
  if (pieces.empty()) co_return true;
  const bool written = co_await client_.write(std::move(pieces), options_.write_within);
  co_return written;
}

std::string Tee::reset() {
  std::string had = std::exchange(body_, {});
  head_ = {};
  head_text_.clear();
  head_given_ = stream_ = coded_ = overflowed_ = false;
  scanner_.reset();
  unread_events_.clear();
  event_times_.clear();
  facts_ = ResponseFacts(options_.api);
  return had;
}

void Tee::read_whole(std::size_t decoded_bytes_max) {
  if (sample_) return;
  if (stream_ && !coded_) return;  // followed as it came
  std::string decoded;
  std::string_view text = body_;
  if (coded_) {
    auto result = decode_content(head_.fields.get("content-encoding"), body_, decoded_bytes_max);
    if (!result) return;  // the bytes are kept; what they mean is unknown
    decoded = std::move(*result);
    text = decoded;
  }
  if (stream_) {
    facts_.read_stream(text);
  } else {
    facts_.read_json(text);
  }
}

bool Tee::cut_short() const {
  const bool has_protocol = options_.api != Api::generic && options_.api != Api::openai_models;
  return has_protocol && stream_ && head_.status == 200 && facts_.data_events() > 0 &&
         !facts_.finished() && !facts_.error_event();
}

std::string Tee::events_json(const std::function<std::size_t(std::size_t)>& place) const {
  std::string out = "[";
  for (const auto& [offset, time_us] : event_times_) {
    if (out.size() > 1) out.push_back(',');
    out.append("[").append(std::to_string(place ? place(offset) : offset)).append(",");
    out.append(std::to_string(time_us)).append("]");
  }
  return out.append("]");
}

std::string Tee::take_body(bool all) {
  if (sample_) {
    tail_ = std::exchange(body_, {});
    if (all) sample_->add(tail_);
    return {};
  }
  if (all) {
    tail_ = body_.substr(sent_);
  } else {
    body_.resize(sent_);
  }
  return std::move(body_);
}

net::awaitable<bool> Tee::finish() {
  if (comments_) co_await comments_->pause();
  const bool written = co_await send(tail_, true);
  co_return written;
}

}  // namespace verbatim::gateway
