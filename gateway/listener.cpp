#include "gateway/listener.hpp"

#include <utility>

namespace verbatim::gateway {

namespace {

Error cannot_listen(const error_code& error, const HostPort& where, const std::string& setting) {
  return Error{Errc::unavailable, "cannot listen: " + error.message(),
               setting + " = " + where.str(), "choose another address, or port 0 for any free one"};
}

}  // namespace

Result<BoundAddress> BoundAddress::take(const HostPort& where, const std::string& setting) {
  error_code error;
  net::io_context io;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, error);
  if (error) return cannot_listen(error, where, setting);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (error) return cannot_listen(error, where, setting);
  Descriptor socket(acceptor.release(error));
  if (error) return cannot_listen(error, where, setting);
  return BoundAddress(std::move(socket), endpoint.protocol(), where, setting);
}

Result<void> BoundAddress::listen(tcp::acceptor& acceptor) {
  error_code error;
  acceptor.assign(protocol_, socket_.get(), error);
  if (error) return cannot_listen(error, where_, setting_);
  socket_.release();
  acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) return cannot_listen(error, where_, setting_);
  return {};
}

Result<BoundAddresses> BoundAddresses::take(const GatewayConfig& config) {
  auto clients = BoundAddress::take(config.listen, "listen");
  if (!clients) return clients.error();
  BoundAddresses taken{std::move(*clients), std::nullopt};
  if (config.admin_enabled) {
    auto admin = BoundAddress::take(config.admin, "admin");
    if (!admin) return admin.error();
    taken.admin.emplace(std::move(*admin));
  }
  return Result<BoundAddresses>(boost::system::in_place_value, std::move(taken));
}

Result<void> listen(tcp::acceptor& acceptor, const HostPort& where, const std::string& setting) {
  auto taken = BoundAddress::take(where, setting);
  if (!taken) return taken.error();
  return taken->listen(acceptor);
}

HostPort address_of(const tcp::acceptor& acceptor) {
  error_code error;
  const auto endpoint = acceptor.local_endpoint(error);
  return error ? HostPort{} : HostPort{endpoint.address().to_string(), endpoint.port()};
}

}  // namespace verbatim::gateway
