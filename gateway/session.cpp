#include "gateway/session.hpp"

#include "gateway/admin.hpp"
#include "gateway/exchange.hpp"
#include "gateway/http_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::chrono::milliseconds kLinger{1000};

/// How reading a request ended.
struct ReadRequest {
  enum class End { whole, long_body, closed, late, fault } end = End::closed;
  std::int64_t arrived_us = 0;
};

/// A head must come whole within its time, however slowly its bytes come; a body only must not
/// stall.
std::chrono::milliseconds time_left(const RequestParser& parser, const ReadRequest& read,
                                    const Services& services) {
  const Timeouts& timeouts = services.config.timeouts;
  if (parser.head_done()) return timeouts.client_body;
  if (read.arrived_us == 0) return timeouts.client_head;
  const std::chrono::milliseconds spent((services.clock.steady_us() - read.arrived_us) / 1000);
  return std::max(timeouts.client_head - spent, std::chrono::milliseconds(0));
}

/// How long a body may be: those that nobody here reads pass through without being kept.
std::uint64_t body_bytes_max(const RequestHead& head, const Limits& limits) {
  return may_stream_body(api_of(head), head.fields) ? limits.stream_bytes_max
                                                    : limits.body_bytes_max;
}

bool is_long(RequestParser& parser, const Limits& limits) {
  return parser.head_done() && parser.body().size() > limits.stream_above_bytes &&
         may_stream_body(api_of(parser.head()), parser.head().fields);
}

/// Reads until the parser is done, has found a fault or the beginning of a long body, or the client stops sending.
net::awaitable<ReadRequest> read_request(ClientConnection& client, RequestParser& parser,
                                         const Services& services) {
  const Timeouts& timeouts = services.config.timeouts;
  ReadRequest result;
  bool continued = false;
  for (;;) {
    while (!client.readable().empty() && !parser.done()) {
      const std::int64_t now_us = services.clock.steady_us();
      const std::size_t used = parser.put(client.readable());
      client.consume(used);
      if (result.arrived_us == 0 && parser.begun()) {
        result.arrived_us = now_us;
        client.set_idle(false);
      }
      if (parser.fault() != HttpFault::none) {
        result.end = ReadRequest::End::fault;
        co_return result;
      }
      if (used == 0) break;
    }
    if (parser.done() || is_long(parser, services.config.limits)) {
      result.end = parser.done() ? ReadRequest::End::whole : ReadRequest::End::long_body;
      co_return result;
    }
    if (!continued && parser.wants_continue()) {
      continued = true;
      const std::vector<net::const_buffer> pieces(1,
                                                  net::buffer(kContinue.data(), kContinue.size()));
      const bool told = co_await client.write(pieces, timeouts.client_write);
      if (!told) co_return result;
    }
    if (services.draining && client.idle()) co_return result;
    const bool more = co_await client.more(time_left(parser, result, services));
    if (!more) {
      if (client.timed_out() && !client.idle()) result.end = ReadRequest::End::late;
      co_return result;
    }
  }
}

HttpRefusal refusal_of(const ReadRequest& read, const RequestParser& parser) {
  return read.end == ReadRequest::End::late ? kTooLate : refusal_of(parser.fault());
}

/// The body of a request whose head and beginning have been read.
class LongBody final : public BodySource {
 public:
  LongBody(ClientConnection& client, RequestParser& parser, const Services& services)
      : client_(client), parser_(parser), services_(services) {}

  [[nodiscard]] net::awaitable<std::string> next() override {
    while (parser_.body().empty() && !parser_.done()) {
      while (!client_.readable().empty() && !parser_.done() && parser_.fault() == HttpFault::none) {
        const std::size_t used = parser_.put(client_.readable());
        client_.consume(used);
        if (used == 0) break;
      }
      if (parser_.fault() != HttpFault::none) {
        read_.end = ReadRequest::End::fault;
        co_return std::string();
      }
      if (!parser_.body().empty() || parser_.done()) break;
      const bool more = co_await client_.more(services_.config.timeouts.client_body);
      if (!more) {
        if (client_.timed_out()) {
          client_.forgive_timeout();
          read_.end = ReadRequest::End::late;
        }
        co_return std::string();
      }
    }
    if (parser_.body().empty()) {
      done_ = true;
      client_.read_ahead();  // from here on a client who leaves is noticed
    }
    co_return std::exchange(parser_.body(), {});
  }
  [[nodiscard]] bool done() const override { return done_; }

  [[nodiscard]] Outcome failure() const override {
    if (read_.end == ReadRequest::End::closed) {
      return client_left("the client closed in the middle of its request");
    }
    const HttpRefusal refusal = refusal_of(read_, parser_);
    return ended(EndStatus::rejected, refusal.http_status, std::string(refusal.kind),
                 std::string(refusal.message));
  }

 private:
  ClientConnection& client_;
  RequestParser& parser_;
  const Services& services_;
  ReadRequest read_;
  bool done_ = false;
};

/// What a load balancer asks: no exchange, so without a record, and without a credential.
bool asks_for_health(const RequestHead& head, const GatewayConfig& config) {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  return !config.health_path.empty() && path == config.health_path &&
         (head.method == "GET" || head.method == "HEAD");
}

net::awaitable<bool> tell_health(ClientConnection& client, const RequestParser& parser,
                                 const Services& services) {
  const bool keep_alive = parser.keep_alive() && !services.draining;
  const std::string text = page_text(parser.head(), readiness(services), keep_alive);
  const std::vector<net::const_buffer> pieces(1, net::buffer(text));
  const bool sent = co_await client.write(pieces, services.config.timeouts.client_write);
  co_return sent&& keep_alive;
}

}  // namespace

net::awaitable<void> serve(std::shared_ptr<ClientConnection> client, Services& services) {
  bool keep_alive = co_await client->shake_hands(services.config.timeouts.client_head);
  while (keep_alive) {
    client->set_idle(true);
    RequestParser parser(services.config.limits.header_bytes_max, [&](const RequestHead& head) {
      return body_bytes_max(head, services.config.limits);
    });
    const ReadRequest read = co_await read_request(*client, parser, services);

    // Closed before a whole request was there: nothing was asked.
    if (read.end == ReadRequest::End::closed) break;

    if (read.end == ReadRequest::End::whole && asks_for_health(parser.head(), services.config)) {
      keep_alive = co_await tell_health(*client, parser, services);
      continue;
    }
    if (read.end == ReadRequest::End::whole) {
      Exchange exchange(services, client, std::move(parser.head()), std::move(parser.body()),
                        parser.keep_alive(), read.arrived_us);
      keep_alive = co_await exchange.run();
      continue;
    }
    if (read.end == ReadRequest::End::long_body) {
      LongBody body(*client, parser, services);
      Exchange exchange(services, client, std::move(parser.head()), std::string(),
                        parser.keep_alive(), read.arrived_us, &body);
      keep_alive = co_await exchange.run();
      if (!body.done()) {  // where the next request would begin is unknown
        keep_alive = false;
        co_await client->linger(kLinger);
      }
      continue;
    }
    // Malformed, too large or too slow: refused and recorded. Where the next request would begin is
    // unknown.
    const HttpRefusal refusal = refusal_of(read, parser);
    if (read.end == ReadRequest::End::late) client->forgive_timeout();
    Exchange exchange(services, client, std::move(parser.head()), std::string(),
                      /*keep_alive=*/false, read.arrived_us);
    keep_alive = co_await exchange.reject(refusal.http_status, std::string(refusal.kind),
                                          std::string(refusal.message));
    co_await client->linger(kLinger);
  }
  client->close();
}

}  // namespace verbatim::gateway
