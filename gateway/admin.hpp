#pragma once
// The operator's listener: GET /healthz (the process runs), /readyz (it can record and takes
// requests) and /metrics (Prometheus; asks for the configured token). Nothing here is recorded.

#include "gateway/client_connection.hpp"
#include "gateway/services.hpp"

#include <memory>

namespace verbatim::gateway {

[[nodiscard]] net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client,
                                               Services& services);

}  // namespace verbatim::gateway
