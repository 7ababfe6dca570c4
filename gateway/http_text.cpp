#include "gateway/http_text.hpp"

#include "gateway/dialect.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace {

constexpr std::uint32_t kHeaderBytesMax = 8192;
constexpr std::chrono::milliseconds kLinger{1000};

/// A request that cannot be read is told why; where the next would begin is unknown.
net::awaitable<void> refuse(ClientConnection& client, const RequestHead& head, HttpRefusal refusal,
                            std::chrono::milliseconds within) {
  const std::string text = page_text(
      head, {refusal.http_status, std::string(refusal.message) + "\n"}, /*keep_alive=*/false);
  const std::vector<net::const_buffer> pieces(1, net::buffer(text));
  const bool sent = co_await client.write(pieces, within);
  if (sent) co_await client.linger(kLinger);
}

}  // namespace

std::string page_text(const RequestHead& head, const Page& page, bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(page.status) + " ";
  out.append(reason_phrase(page.status)).append("\r\ncontent-type: ").append(page.type);
  out.append("\r\ncache-control: ").append(page.cache).append("\r\ncontent-length: ");
  out.append(std::to_string(page.body.size())).append("\r\n");
  if (!page.challenge.empty())
    out.append("www-authenticate: ").append(page.challenge).append("\r\n");
  if (!page.allow.empty()) out.append("allow: ").append(page.allow).append("\r\n");
  if (!keep_alive) {
    out.append("connection: close\r\n");
  } else if (head.version < 11) {
    out.append("connection: keep-alive\r\n");
  }
  out.append("\r\n");
  if (head.method != "HEAD") out.append(page.body);
  return out;
}

net::awaitable<void> serve_pages(std::shared_ptr<ClientConnection> client, const Clock& clock,
                                 PageLimits limits,
                                 std::function<net::awaitable<Page>(RequestParser&)> page,
                                 std::function<bool()> last) {
  for (bool keep_alive = true; keep_alive;) {
    client->set_idle(true);
    const std::int64_t begun_us = clock.steady_us();
    RequestParser parser(kHeaderBytesMax, limits.body_bytes_max);
    bool more = true;
    while (more) {
      client->consume(parser.put(client->readable()));
      if (parser.done() || parser.fault() != HttpFault::none) break;
      // However slowly the bytes come.
      const std::chrono::milliseconds spent((clock.steady_us() - begun_us) / 1000);
      more = co_await client->more(std::max(limits.within - spent, std::chrono::milliseconds(0)));
    }
    if (parser.fault() != HttpFault::none) {
      co_await refuse(*client, parser.head(), refusal_of(parser.fault()), limits.within);
      break;
    }
    if (!more) {
      if (!client->timed_out() || !parser.begun()) break;
      client->forgive_timeout();
      co_await refuse(*client, parser.head(), kTooLate, limits.within);
      break;
    }
    keep_alive = parser.keep_alive() && !last();
    const Page answer = co_await page(parser);
    const std::string text = page_text(parser.head(), answer, keep_alive);
    const std::vector<net::const_buffer> pieces(1, net::buffer(text));
    const bool sent = co_await client->write(pieces, limits.within);
    keep_alive = keep_alive && sent;
  }
  client->close();
}

}  // namespace verbatim::gateway
