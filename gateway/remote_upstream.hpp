#pragma once
// A remote server: the request as it came, the answer as it comes. RFC 9112; TLS with the server's
// name and certificate checked.

#include "gateway/config.hpp"
#include "gateway/deadline.hpp"
#include "gateway/upstream.hpp"

#include <memory>

namespace verbatim::gateway {

/// `invalid_input` if the CA file cannot be read. All borrowed things must outlive it.
[[nodiscard]] Result<std::unique_ptr<Upstream>> make_remote_upstream(
    net::io_context& io, Deadlines& deadlines, const Clock& clock, const UpstreamConfig& upstream,
    const Limits& limits, const Timeouts& timeouts);

}  // namespace verbatim::gateway
