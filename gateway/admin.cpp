#include "gateway/admin.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/http_text.hpp"

#include <openssl/crypto.h>

#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

namespace {

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
                                  services.observations, services.upstream_facts),
            "text/plain; version=0.0.4; charset=utf-8"};
  }
  return {};
}

}  // namespace

net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client, Services& services) {
  return serve_pages(
      std::move(client), /*body_bytes_max=*/0,
      [&services](RequestParser& request) { return page_for(request.head(), services); },
      [&services] { return services.draining; });
}

}  // namespace verbatim::gateway
