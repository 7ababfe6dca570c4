#include "gateway/byte_stream.hpp"

#include <boost/asio/write.hpp>

namespace verbatim::gateway {

net::awaitable<error_code> write_all(tcp::socket& socket, std::optional<TlsStream>& tls,
                                     std::span<const net::const_buffer> pieces) {
  if (tls) {
    const auto [error, bytes] = co_await net::async_write(*tls, pieces, kTuple);
    co_return error;
  }
  const auto [error, bytes] = co_await net::async_write(socket, pieces, kTuple);
  co_return error;
}

}  // namespace verbatim::gateway
