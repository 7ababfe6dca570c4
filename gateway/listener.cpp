#include "gateway/listener.hpp"

namespace verbatim::gateway {

Result<void> listen(net::io_context& io, tcp::acceptor& acceptor, const HostPort& where,
                    const std::string& setting) {
  const auto refuse = [&](const error_code& error) {
    return Error{Errc::unavailable, "cannot listen: " + error.message(),
                 setting + " = " + where.str(),
                 "choose another address, or port 0 for any free one"};
  };
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, error);
  if (error) return refuse(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  if (acceptor.open(endpoint.protocol(), error); error) return refuse(error);
  acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (acceptor.bind(endpoint, error); error) return refuse(error);
  if (acceptor.listen(net::socket_base::max_listen_connections, error); error) return refuse(error);
  return {};
}

HostPort address_of(const tcp::acceptor& acceptor) {
  error_code error;
  const auto endpoint = acceptor.local_endpoint(error);
  return error ? HostPort{} : HostPort{endpoint.address().to_string(), endpoint.port()};
}

}  // namespace verbatim::gateway
