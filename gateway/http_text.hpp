#pragma once
// Small answers, each one text: what the admin listener and the witness say.

#include "gateway/client_connection.hpp"
#include "gateway/http.hpp"

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
};

/// Answers requests on one connection until it ends, a request is broken, its body is longer than `body_bytes_max`, or
/// `last` says that the answer to this one shall be the last. Nothing is to be stored; HEAD gets no body.
[[nodiscard]] net::awaitable<void> serve_pages(std::shared_ptr<ClientConnection> client,
                                               std::size_t body_bytes_max,
                                               std::function<Page(RequestParser&)> page,
                                               std::function<bool()> last);

}  // namespace verbatim::gateway
