#pragma once
// A small answer as one text: what the admin listener and the witness say.

#include "gateway/http.hpp"

#include <string>
#include <string_view>

namespace verbatim::gateway {

struct Page {
  int status = 404;
  std::string body = "not found\n";
  std::string_view type = "text/plain; charset=utf-8";
};

/// The whole response: never to be stored, without a body for HEAD.
[[nodiscard]] std::string response_text(const RequestHead& head, const Page& page, bool keep_alive);

}  // namespace verbatim::gateway
