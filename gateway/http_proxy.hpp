#pragma once
// The proxy that the environment names for https upstreams: HTTPS_PROXY and NO_PROXY, as curl and others read them. What
// goes through it is TLS from end to end (CONNECT, RFC 9110 section 9.3.6).

#include "gateway/config.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

struct HttpProxy {
  HostPort address;
  std::string authorization;  ///< the value of Proxy-Authorization, or ""; a secret
};

using Environment = std::function<const char*(const char*)>;  // getenv()

/// None if the upstream is reached directly: it is plain http or on this machine, no proxy is named, or NO_PROXY names the
/// host (a name covers its subdomains, "*" covers all). The lower-case variables win. `invalid_input` if the proxy's
/// URL is none, or not http.
[[nodiscard]] Result<std::optional<HttpProxy>> proxy_for(const BaseUrl& url,
                                                         const Environment& environment);

/// What is sent to the proxy to be connected.
[[nodiscard]] std::string connect_request(const HttpProxy& proxy, const HostPort& target);

/// Reads the head of the proxy's answer, with its blank line: true if it has connected us.
[[nodiscard]] bool connected(std::string_view head);

}  // namespace verbatim::gateway
