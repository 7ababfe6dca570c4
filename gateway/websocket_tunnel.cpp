#include "gateway/websocket_tunnel.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::string_view kDeflate = "permessage-deflate";  // RFC 7692
constexpr std::size_t kFramesBytesMax = 4u << 20;
constexpr std::size_t kDroppedBytesMax = 1u << 20;  // of what a client sends after the end
// The tunnel's own deadline is for both directions; those of the connections are for one thing at a time.
constexpr std::chrono::milliseconds kNoLimit{std::chrono::hours{24}};

std::string_view closer(const WebSocketTunnel::Side& client,
                        const WebSocketTunnel::Side& upstream) {
  if (client.reader.closed()) return "client";
  return upstream.reader.closed() ? "upstream" : "";
}

}  // namespace

bool asks_for_websocket(const RequestHead& head) {
  return head.method == "GET" && head.version >= 11 &&
         has_word(head.fields.get("connection"), "upgrade") &&
         has_word(head.fields.get("upgrade"), "websocket");
}

WebSocketTunnel::WebSocketTunnel(std::shared_ptr<ClientConnection> client, Deadlines& deadlines,
                                 const Clock& clock, const Fields& answer, const Options& options)
    : client_(std::move(client)),
      clock_(clock),
      answer_(answer),
      options_(options),
      idle_(deadlines,
            [this] {
              timed_out_ = true;
              stop();
            }),
      from_client_(true, options),
      from_upstream_(false, options) {}

/// What the upstream chose of the client's offers.
void WebSocketTunnel::agree_on_extensions() {
  for (const Field& field : answer_.all()) {
    if (!same_word(field.name, "sec-websocket-extensions")) continue;
    from_client_.reader.allow_extensions();
    from_upstream_.reader.allow_extensions();
    for (std::string_view list = field.value; !list.empty();) {
      const std::string_view item = take_list_item(list);
      const std::string_view name = item.substr(0, item.find_first_of("; \t"));
      compressed_ = compressed_ || same_word(name, kDeflate);
    }
  }
}

/// Both directions end their waits.
void WebSocketTunnel::stop() {
  upstream_->close();
  client_->stop_waiting();
}

net::awaitable<Outcome> WebSocketTunnel::run(std::shared_ptr<UpstreamConnection> upstream) {
  upstream_ = std::move(upstream);
  agree_on_extensions();
  idle_.arm(options_.idle);
  net::co_spawn(client_->executor(), pass_client(), [this](const std::exception_ptr&) {
    client_done_ = true;
    client_passed_.wake();
  });
  co_await pass_upstream();
  // What the client is still sending has no reader any more, but for its answer to the Close.
  client_->stop_waiting();
  idle_.arm(options_.closing);
  if (upstream_ended_) upstream_->close();
  while (!client_done_) co_await client_passed_.wait();
  idle_.disarm();
  co_return judge();
}

net::awaitable<void> WebSocketTunnel::pass_client() {
  while (!from_client_.reader.closed() && !from_upstream_.reader.closed() && !upstream_ended_) {
    if (client_->readable().empty()) {
      const bool more = co_await client_->more(kNoLimit);
      if (!more) break;
      continue;
    }
    const std::string piece(client_->readable());
    client_->consume(piece.size());
    note(from_client_, 'c', piece);
    const auto error = co_await upstream_->write({net::buffer(piece), {}}, kNoLimit);
    if (error) break;
    idle_.arm(from_client_.reader.closed() ? options_.closing : options_.idle);
  }
  // Who has said Close may end its sending side, and still waits for the upstream's.
  if (from_client_.reader.closed() && !client_->gone()) co_return;
  client_ended_ = client_->gone() || client_->half_closed() || client_->interrupted();
  if (client_ended_) upstream_->close();
}

net::awaitable<void> WebSocketTunnel::pass_upstream() {
  while (!from_upstream_.reader.closed()) {
    if (upstream_->readable().empty()) {
      const auto error = co_await upstream_->read_some(kNoLimit);
      if (error) {
        upstream_ended_ = true;
        co_return;
      }
    }
    const std::string piece(upstream_->readable());
    upstream_->consume(piece.size());
    const std::uint64_t before = from_upstream_.reader.bytes();
    note(from_upstream_, 'u', piece);
    std::size_t free = piece.size();
    if (const auto close = from_upstream_.reader.close_begin()) {
      free = *close > before ? static_cast<std::size_t>(*close - before) : 0;
      held_.append(piece, free);
    }
    if (free > 0) {
      std::vector<net::const_buffer> pieces(1, net::buffer(piece.data(), free));
      const bool there = co_await client_->write(std::move(pieces), kNoLimit);
      if (!there) {
        client_ended_ = true;
        co_return;
      }
    }
    if (!from_client_.reader.closed()) idle_.arm(options_.idle);
  }
}

void WebSocketTunnel::note(Side& side, char direction, std::string_view bytes) {
  side.sample.add(bytes);
  side.reader.push(bytes);
  const std::int64_t now_us = clock_.steady_us() - options_.arrived_us;
  for (const WebSocketFrame& frame : side.reader.take_frames()) {
    ++side.frames;
    if (frames_.size() > kFramesBytesMax) {
      ++frames_left_out_;
      continue;
    }
    if (frames_.size() > 1) frames_.push_back(',');
    frames_.append("[\"").append(1, direction).append("\",");
    frames_.append(std::to_string(frame.begin)).append(",");
    frames_.append(std::to_string(now_us)).append(",");
    frames_.append(std::to_string(frame.first)).append("]");
  }
}

Outcome WebSocketTunnel::judge() const {
  if (from_upstream_.reader.closed()) return {};
  if (client_->interrupted()) {
    return ended(EndStatus::client_disconnect, 101, "client_disconnect", "interrupted");
  }
  if (client_ended_) {
    return ended(EndStatus::client_disconnect, 101, "client_disconnect",
                 "the client closed without a Close frame");
  }
  if (timed_out_) {
    const bool closing = from_client_.reader.closed();
    return ended(EndStatus::timeout, 101, closing ? "close_timeout" : "idle_timeout",
                 closing ? "the upstream did not answer the Close frame in time"
                         : "nothing was sent in either direction");
  }
  if (from_client_.reader.closed()) return {};  // the upstream answered by closing
  return ended(EndStatus::upstream_truncated, 101, "no_close_frame",
               "the upstream closed without a Close frame");
}

net::awaitable<void> WebSocketTunnel::finish() {
  if (!from_upstream_.reader.closed()) co_return;
  std::vector<net::const_buffer> pieces(1, net::buffer(held_));
  const bool there = co_await client_->write(std::move(pieces), options_.closing);
  if (!there || from_client_.reader.closed()) co_return;
  // The client's answer to it, and nothing else: the upstream reads no data any more.
  for (std::size_t dropped = 0; dropped < kDroppedBytesMax && !from_client_.reader.closed();) {
    if (client_->readable().empty()) {
      const bool more = co_await client_->more(options_.closing);
      if (!more) co_return;
    }
    std::string piece(client_->readable());
    client_->consume(piece.size());
    const std::uint64_t before = from_client_.reader.bytes();
    from_client_.reader.push(piece);
    const auto close = from_client_.reader.close_begin();
    const std::uint64_t skipped = !close ? piece.size() : *close > before ? *close - before : 0;
    dropped += static_cast<std::size_t>(skipped);
    piece.erase(0, static_cast<std::size_t>(skipped));
    if (piece.empty()) continue;
    const auto error = co_await upstream_->write({net::buffer(piece), {}}, options_.closing);
    if (error) co_return;
  }
}

Json WebSocketTunnel::describe() const {
  const auto side = [](const Side& one) {
    Json out = one.sample.describe();
    out["frames"] = one.frames;
    if (!one.reader.fault().empty()) out["fault"] = one.reader.fault();
    return out;
  };
  Json out = {{"client", side(from_client_)}, {"upstream", side(from_upstream_)}};
  const std::string_view by = closer(from_client_, from_upstream_);
  if (!by.empty()) {
    const Side& first = by == "client" ? from_client_ : from_upstream_;
    out["close"] = {{"by", by}, {"code", first.reader.close_code()}};
  }
  if (compressed_) out["compression"] = kDeflate;
  if (frames_left_out_ > 0) out["frames_left_out"] = frames_left_out_;
  return out;
}

}  // namespace verbatim::gateway
