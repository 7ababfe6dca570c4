#pragma once
// Small answers, each one text: what the admin listener and the witness say.

#include "gateway/client_connection.hpp"
#include "gateway/http.hpp"
#include "schema/clock.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace verbatim::gateway {

struct Page {
  int status = 404;
  std::string body = "not found\n";
  std::string type = "text/plain; charset=utf-8";
  std::string challenge = "";  ///< WWW-Authenticate, for 401
  std::string allow = "";      ///< Allow, for 405
  std::string cache = "no-store";
};

/// The whole answer. HEAD gets no body.
[[nodiscard]] std::string page_text(const RequestHead& head, const Page& page, bool keep_alive);

/// What a client is told whose request did not come whole in time.
inline constexpr HttpRefusal kTooLate{408, "request_timeout", "the request took too long"};

struct PageLimits {
  std::size_t body_bytes_max = 0;
  /// For a request, counted from the answer before it, and for its answer.
  std::chrono::milliseconds within{10'000};
};

/// Answers requests on one connection until it ends, a request is broken, too large or too late (which it is told), or
/// `last` says that the answer to this one shall be the last.
[[nodiscard]] net::awaitable<void> serve_pages(
    std::shared_ptr<ClientConnection> client, const Clock& clock, PageLimits limits,
    std::function<net::awaitable<Page>(RequestParser&)> page, std::function<bool()> last);

}  // namespace verbatim::gateway
