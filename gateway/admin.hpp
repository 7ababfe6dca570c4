#pragma once
// The operator's listener: GET /healthz (the process runs), /readyz (it can record and takes requests), /metrics
// (Prometheus) and / (a page of the same figures for people). The last two ask for the configured token. Nothing here is
// recorded.

#include "audit/log_overview.hpp"
#include "gateway/client_connection.hpp"
#include "gateway/services.hpp"

#include <memory>

namespace verbatim::gateway {

/// `overview`: of the log behind the recorder; null if there is none to look at.
[[nodiscard]] net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client,
                                               Services& services, audit::LogOverview* overview);

}  // namespace verbatim::gateway
