#pragma once
// TLS contexts, for clients who come in and for servers that are asked. TLS 1.2 and later.

#include "gateway/config.hpp"

#include <boost/asio/ssl/context.hpp>

#include <memory>

namespace verbatim::gateway {

/// For the listener. `invalid_input` names the file that cannot be read, or says that key and certificate do not belong
/// together.
[[nodiscard]] Result<std::shared_ptr<boost::asio::ssl::context>> make_server_tls(
    const TlsConfig& config);

/// For an upstream: the CAs it may be vouched for by, and the gateway's own certificate where one is configured.
[[nodiscard]] Result<std::unique_ptr<boost::asio::ssl::context>> make_client_tls(
    const UpstreamConfig& upstream);

}  // namespace verbatim::gateway
