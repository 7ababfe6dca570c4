#include "gateway/admin.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/http_text.hpp"

#include <openssl/crypto.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

namespace {

constexpr std::chrono::milliseconds kWithin{10'000};
constexpr std::uint32_t kHeaderBytesMax = 8192;

/// In constant time, so that the token cannot be guessed piece by piece.
bool has_token(const RequestHead& head, const std::string& token) {
  if (token.empty()) return true;
  const std::string_view given = credential_of(head.fields);
  return given.size() == token.size() &&
         CRYPTO_memcmp(given.data(), token.data(), token.size()) == 0;
}

Page page_for(const RequestHead& head, const Services& services) {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (head.method != "GET" && head.method != "HEAD") return {405, "only GET\n"};
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") {
    if (services.draining) return {503, "draining\n"};
    if (!services.recorder.healthy()) return {503, "the audit log cannot be written\n"};
    return {200, "ready\n"};
  }
  if (path == "/metrics") {
    if (!has_token(head, services.config.admin_token)) return {401, "a token is needed\n"};
    return {200,
            services.metrics.text(services.recorder.stats(), services.ledger.gap(),
                                  services.observations),
            "text/plain; version=0.0.4; charset=utf-8"};
  }
  return {};
}

}  // namespace

net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client, Services& services) {
  for (bool keep_alive = true; keep_alive;) {
    client->set_idle(true);
    RequestParser parser(kHeaderBytesMax, /*body_bytes_max=*/0);
    while (!parser.done() && parser.fault() == HttpFault::none) {
      client->consume(parser.put(client->readable()));
      if (parser.done() || parser.fault() != HttpFault::none) break;
      const bool more = co_await client->more(kWithin);
      if (!more) co_return client->close();
    }
    if (parser.fault() != HttpFault::none) break;
    keep_alive = parser.keep_alive() && !services.draining;
    const std::string text =
        response_text(parser.head(), page_for(parser.head(), services), keep_alive);
    const std::vector<net::const_buffer> pieces(1, net::buffer(text));
    const bool sent = co_await client->write(pieces, kWithin);
    keep_alive = keep_alive && sent;
  }
  client->close();
}

}  // namespace verbatim::gateway
