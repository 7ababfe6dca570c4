#pragma once
// What connections to clients and to upstreams have in common: a socket that may have TLS over it.

#include "gateway/net.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <optional>
#include <span>

namespace verbatim::gateway {

using TlsStream = net::ssl::stream<tcp::socket&>;

/// Writes all of the pieces, through `tls` if there is one. All is borrowed until it returns.
[[nodiscard]] net::awaitable<error_code> write_all(tcp::socket& socket,
                                                   std::optional<TlsStream>& tls,
                                                   std::span<const net::const_buffer> pieces);

}  // namespace verbatim::gateway
