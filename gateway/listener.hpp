#pragma once
// Opening a listening socket.

#include "gateway/config.hpp"
#include "gateway/net.hpp"

namespace verbatim::gateway {

/// `unavailable` if the address is in use, or not ours. `setting` is what the configuration calls it.
[[nodiscard]] Result<void> listen(net::io_context& io, tcp::acceptor& acceptor,
                                  const HostPort& where, const std::string& setting);

/// Where an acceptor listens, with the port that port 0 became. Empty if it does not.
[[nodiscard]] HostPort address_of(const tcp::acceptor& acceptor);

}  // namespace verbatim::gateway
