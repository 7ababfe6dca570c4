#include "gateway/admin.hpp"

#include "gateway/dashboard.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/http_text.hpp"
#include "gateway/overview_metrics.hpp"

#include <openssl/crypto.h>

#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

namespace {

/// The token as it was sent: as a bearer's or a key, or as the password that a browser asks for.
std::string given_token(const RequestHead& head) {
  const std::string_view credential = credential_of(head.fields);
  const std::string_view authorization = head.fields.get("authorization");
  if (!same_word(authorization.substr(0, authorization.find(' ')), "basic")) {
    return std::string(credential);
  }
  const auto pair = from_base64(credential);
  if (!pair) return "";
  const std::string_view user_and_password = as_text(*pair);
  const std::size_t colon = user_and_password.find(':');
  if (colon == std::string_view::npos) return "";
  return std::string(user_and_password.substr(colon + 1));
}

/// In constant time, so that the token cannot be guessed piece by piece.
bool has_token(const RequestHead& head, const std::string& token) {
  if (token.empty()) return true;
  const std::string given = given_token(head);
  return given.size() == token.size() &&
         CRYPTO_memcmp(given.data(), token.data(), token.size()) == 0;
}

/// Reads what has come since, so that this page says how it is now. What cannot be read stays as it was.
const audit::LogOverview* looked_at(audit::LogOverview* overview) {
  if (overview != nullptr) (void)overview->refresh();
  return overview;
}

std::string metrics_text(const Services& services) {
  return services.metrics.text(services.recorder.stats(), services.ledger.gap(),
                               services.observations, services.upstream_facts);
}

Page page_for(const RequestHead& head, const Services& services, audit::LogOverview* overview) {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (head.method != "GET" && head.method != "HEAD") return {405, "only GET\n"};
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") {
    if (services.draining) return {503, "draining\n"};
    if (!services.recorder.healthy()) return {503, "the audit log cannot be written\n"};
    return {200, "ready\n"};
  }
  if (path == "/") {
    if (!has_token(head, services.config.admin_token)) {
      return {401, "a token is needed\n", "text/plain; charset=utf-8",
              R"(Basic realm="verbatim", charset="UTF-8")"};
    }
    return {200,
            dashboard({metrics_text(services), services.observations, services.recorder.stats(),
                       looked_at(overview), services.ledger.gap(), services.draining,
                       services.clock.now_us()}),
            "text/html; charset=utf-8", ""};
  }
  if (path == "/metrics") {
    if (!has_token(head, services.config.admin_token)) return {401, "a token is needed\n"};
    std::string text = metrics_text(services);
    if (looked_at(overview) != nullptr) {
      text += overview_metrics(*overview, services.clock.now_us());
    }
    return {200, std::move(text), "text/plain; version=0.0.4; charset=utf-8", ""};
  }
  return {};
}

}  // namespace

net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client, Services& services,
                                 audit::LogOverview* overview) {
  return serve_pages(
      std::move(client), /*body_bytes_max=*/0,
      [&services, overview](RequestParser& request) {
        return page_for(request.head(), services, overview);
      },
      [&services] { return services.draining; });
}

}  // namespace verbatim::gateway
