#include "gateway/admin.hpp"

#include "gateway/dashboard.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/host_rule.hpp"
#include "gateway/http_text.hpp"
#include "gateway/overview_metrics.hpp"

#include <openssl/crypto.h>

#include <optional>
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

/// Refuses what a browser asks for somebody else's page.
std::optional<Page> find_misdirected(const RequestHead& head, const GatewayConfig& config) {
  const std::string_view host = head.fields.get("host");
  if (!answers_to(host, config.admin, config.admin_hosts)) {
    return Page{421, "this listener does not answer to the name " + leaf_text(host, 256) +
                         ": ask for its IP address, or add the name to gateway.admin_hosts\n"};
  }
  if (from_another_site(head.fields)) return Page{403, "pages of other sites may not ask here\n"};
  return std::nullopt;
}

Page page_for(const RequestHead& head, const Services& services, audit::LogOverview* overview) {
  if (auto refusal = find_misdirected(head, services.config)) return std::move(*refusal);
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (head.method != "GET" && head.method != "HEAD") {
    return {405, "only GET and HEAD\n", Page().type, "", "GET, HEAD"};
  }
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") return readiness(services);
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

net::awaitable<Page> answer_to(const RequestHead& head, const Services& services,
                               audit::LogOverview* overview, LogPages* log) {
  constexpr std::string_view kLog = "/log/";
  const std::string path = head.target.substr(0, head.target.find('?'));
  Page page = page_for(head, services, overview);
  // 404: whom it is for and how it is asked has been checked.
  if (page.status != 404 || log == nullptr || !path.starts_with(kLog)) co_return page;
  if (!has_token(head, services.config.admin_token)) co_return Page{401, "a token is needed\n"};
  page = co_await log->page(path.substr(kLog.size()));
  co_return page;
}

}  // namespace

Page readiness(const Services& services) {
  if (services.draining) return {503, "draining\n"};
  if (!services.recorder.healthy()) return {503, "the audit log cannot be written\n"};
  return {200, "ready\n"};
}

net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client, Services& services,
                                 audit::LogOverview* overview, LogPages* log) {
  return serve_pages(
      std::move(client), services.clock, {0, services.config.timeouts.client_head},
      [&services, overview, log](RequestParser& request) {
        return answer_to(request.head(), services, overview, log);
      },
      [&services] { return services.draining; });
}

}  // namespace verbatim::gateway
