#pragma once
// A remote server: the request as it came, the answer as it comes. RFC 9112; TLS with the server's
// name and certificate checked.

#include "gateway/config.hpp"
#include "gateway/deadline.hpp"
#include "gateway/upstream.hpp"

#include <memory>

namespace verbatim::gateway {

/// `invalid_input` if a certificate or the credential cannot be read, or the environment names a proxy that is none. All
/// borrowed things must outlive it; `upstream`, `limits` and `timeouts` are copied.
[[nodiscard]] Result<std::shared_ptr<Upstream>> make_remote_upstream(
    net::io_context& io, Deadlines& deadlines, const Clock& clock, const UpstreamConfig& upstream,
    const Limits& limits, const Timeouts& timeouts);

/// The same errors, found without making one.
[[nodiscard]] Result<void> check_remote_upstream(const UpstreamConfig& upstream);

}  // namespace verbatim::gateway
