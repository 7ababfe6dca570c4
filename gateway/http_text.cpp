#include "gateway/http_text.hpp"

#include "gateway/dialect.hpp"

#include <chrono>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace {

constexpr std::chrono::milliseconds kWithin{10'000};
constexpr std::uint32_t kHeaderBytesMax = 8192;

std::string response_text(const RequestHead& head, const Page& page, bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(page.status) + " ";
  out.append(reason_phrase(page.status)).append("\r\ncontent-type: ").append(page.type);
  out.append("\r\ncache-control: no-store\r\ncontent-length: ");
  out.append(std::to_string(page.body.size())).append("\r\n");
  if (!page.challenge.empty())
    out.append("www-authenticate: ").append(page.challenge).append("\r\n");
  if (!keep_alive) out.append("connection: close\r\n");
  out.append("\r\n");
  if (head.method != "HEAD") out.append(page.body);
  return out;
}

}  // namespace

net::awaitable<void> serve_pages(std::shared_ptr<ClientConnection> client,
                                 std::size_t body_bytes_max,
                                 std::function<Page(RequestParser&)> page,
                                 std::function<bool()> last) {
  for (bool keep_alive = true; keep_alive;) {
    client->set_idle(true);
    RequestParser parser(kHeaderBytesMax, body_bytes_max);
    while (!parser.done() && parser.fault() == HttpFault::none) {
      client->consume(parser.put(client->readable()));
      if (parser.done() || parser.fault() != HttpFault::none) break;
      const bool more = co_await client->more(kWithin);
      if (!more) co_return client->close();
    }
    if (parser.fault() != HttpFault::none) break;
    keep_alive = parser.keep_alive() && !last();
    const std::string text = response_text(parser.head(), page(parser), keep_alive);
    const std::vector<net::const_buffer> pieces(1, net::buffer(text));
    const bool sent = co_await client->write(pieces, kWithin);
    keep_alive = keep_alive && sent;
  }
  client->close();
}

}  // namespace verbatim::gateway
