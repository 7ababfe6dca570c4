#include "gateway/http_proxy.hpp"

#include "gateway/http.hpp"
#include "schema/bytes.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <charconv>

namespace verbatim::gateway {

namespace {

std::string_view value_of(const Environment& environment, const char* lower, const char* upper) {
  for (const char* name : {lower, upper}) {
    if (const char* value = environment(name); value != nullptr && *value != '\0') return value;
  }
  return {};
}

bool is_on_this_machine(std::string_view host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  return error ? same_word(host, "localhost") : address.is_loopback();
}

/// NO_PROXY: names and addresses with commas between them.
bool is_excepted(std::string_view list, std::string_view host) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (name.starts_with(' ') || name.starts_with('.')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name == "*" || same_word(name, host)) return true;
    if (!name.empty() && host.size() > name.size() && host[host.size() - name.size() - 1] == '.' &&
        same_word(host.substr(host.size() - name.size()), name)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<std::optional<HttpProxy>> proxy_for(const BaseUrl& url, const Environment& environment) {
  const std::string_view text = value_of(environment, "https_proxy", "HTTPS_PROXY");
  if (!url.tls || text.empty() || is_on_this_machine(url.address.host) ||
      is_excepted(value_of(environment, "no_proxy", "NO_PROXY"), url.address.host)) {
    return std::optional<HttpProxy>();
  }
  // Never quoted in the message: it may hold a password.
  const Error bad{Errc::invalid_input,
                  "the proxy that the environment names is no http://HOST:PORT", "HTTPS_PROXY",
                  "unset it, or name the host in NO_PROXY, to ask upstreams directly"};
  const std::string whole = text.find("://") == std::string_view::npos
                                ? "http://" + std::string(text)
                                : std::string(text);
  const auto parsed = boost::urls::parse_uri(whole);
  if (!parsed || parsed->scheme_id() != boost::urls::scheme::http || parsed->host().empty())
    return bad;
  HttpProxy proxy;
  proxy.address.host = std::string(parsed->host_address());
  proxy.address.port = 80;
  if (parsed->has_port()) {
    const std::string digits(parsed->port());
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), proxy.address.port);
    if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  }
  if (parsed->has_userinfo()) {
    const std::string secret = parsed->user() + ":" + parsed->password();
    proxy.authorization = "Basic " + to_base64(as_bytes(secret));
  }
  return std::optional<HttpProxy>(std::move(proxy));
}

std::string connect_request(const HttpProxy& proxy, const HostPort& target) {
  std::string out = "CONNECT " + target.str() + " HTTP/1.1\r\nHost: " + target.str() + "\r\n";
  if (!proxy.authorization.empty()) out += "Proxy-Authorization: " + proxy.authorization + "\r\n";
  return out + "\r\n";
}

bool connected(std::string_view head) {
  // "HTTP/1.x 2xx ": any success connects.
  return head.size() > 12 && head.starts_with("HTTP/1.") && head[8] == ' ' && head[9] == '2';
}

}  // namespace verbatim::gateway
