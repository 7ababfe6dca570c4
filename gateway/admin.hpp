#pragma once
// The operator's listener: GET /healthz (the process runs), /readyz (it can record and takes requests), /metrics
// (Prometheus), / (a page of the same figures for people) and /log/... (the log for its monitors: log_pages.hpp). The last
// three ask for the configured token. It answers to the
// names of host_rule.hpp alone, and not to pages of other sites. Nothing here is recorded.

#include "audit/log_overview.hpp"
#include "gateway/client_connection.hpp"
#include "gateway/http_text.hpp"
#include "gateway/log_pages.hpp"
#include "gateway/services.hpp"

#include <memory>

namespace verbatim::gateway {

/// 200 while requests are taken and can be recorded; else 503, and why.
[[nodiscard]] Page readiness(const Services& services);

/// `overview`, `log`: of the log behind the recorder; null if there is none to look at.
[[nodiscard]] net::awaitable<void> serve_admin(std::shared_ptr<ClientConnection> client,
                                               Services& services, audit::LogOverview* overview,
                                               LogPages* log);

}  // namespace verbatim::gateway
