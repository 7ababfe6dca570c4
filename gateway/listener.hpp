#pragma once
// Opening a listening socket.

#include "gateway/config.hpp"
#include "gateway/net.hpp"
#include "schema/descriptor.hpp"

#include <optional>

namespace verbatim::gateway {

/// An address that is taken, but not served yet: who connects is refused. Given back with this.
class BoundAddress {
 public:
  /// `unavailable` if the address is in use, or not ours. `setting` is what the configuration calls it.
  [[nodiscard]] static Result<BoundAddress> take(const HostPort& where, const std::string& setting);
  /// From here on clients wait to be accepted. Once; `acceptor` must not be open.
  [[nodiscard]] Result<void> listen(tcp::acceptor& acceptor);

 private:
  BoundAddress(Descriptor socket, tcp protocol, HostPort where, std::string setting)
      : socket_(std::move(socket)),
        protocol_(protocol),
        where_(std::move(where)),
        setting_(std::move(setting)) {}

  Descriptor socket_;
  tcp protocol_;
  HostPort where_;
  std::string setting_;
};

/// Both addresses of a gateway.
struct BoundAddresses {
  BoundAddress clients;
  std::optional<BoundAddress> admin;  ///< if there is to be one

  [[nodiscard]] static Result<BoundAddresses> take(const GatewayConfig& config);
};

/// take() and listen().
[[nodiscard]] Result<void> listen(tcp::acceptor& acceptor, const HostPort& where,
                                  const std::string& setting);

/// Where an acceptor listens, with the port that port 0 became. Empty if it does not.
[[nodiscard]] HostPort address_of(const tcp::acceptor& acceptor);

}  // namespace verbatim::gateway
