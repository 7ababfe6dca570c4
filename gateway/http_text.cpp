#include "gateway/http_text.hpp"

#include "gateway/dialect.hpp"

namespace verbatim::gateway {

std::string response_text(const RequestHead& head, const Page& page, bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(page.status) + " ";
  out.append(reason_phrase(page.status)).append("\r\ncontent-type: ").append(page.type);
  out.append("\r\ncache-control: no-store\r\ncontent-length: ");
  out.append(std::to_string(page.body.size())).append("\r\n");
  if (!keep_alive) out.append("connection: close\r\n");
  out.append("\r\n");
  if (head.method != "HEAD") out.append(page.body);
  return out;
}

}  // namespace verbatim::gateway
