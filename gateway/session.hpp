#pragma once
// A client's connection: requests one after another, each read within limits and given to an
// exchange.

#include "gateway/client_connection.hpp"
#include "gateway/services.hpp"

#include <memory>

namespace verbatim::gateway {

/// Serves the connection until it ends. Pipelined requests are answered in order. What cannot be
/// read as HTTP, or is too large, is answered, recorded as rejected, and ends the connection.
[[nodiscard]] net::awaitable<void> serve(std::shared_ptr<ClientConnection> client,
                                         Services& services);

}  // namespace verbatim::gateway
