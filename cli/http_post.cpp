#include "cli/http_post.hpp"

#include <utility>

namespace verbatim::cli {

Result<gateway::EndpointAnswer> post(const Post& what) {
  static const SystemClock clock;
  gateway::EndpointOptions options;
  options.url = what.base;
  options.ca_file = what.ca_file;
  options.total = std::chrono::milliseconds(30'000);
  options.response_bytes_max = what.answer_bytes_max;
  gateway::EndpointQuestion question;
  question.target = what.target;
  question.fields.add("content-type", what.content_type);
  question.body = what.body;
  gateway::EndpointAnswer answer;
  gateway::Neighbours none;
  const auto asked = gateway::ask_endpoint(options, {question}, 1, none, clock,
                                           [&](std::size_t, gateway::EndpointAnswer got) {
                                             answer = std::move(got);
                                             return true;
                                           });
  if (!asked) return asked.error();
  if (answer.error_kind.empty()) return answer;
  return Error{Errc::upstream_failed, what.service + " does not answer: " + answer.error_kind,
               what.url, answer.error_message};
}

}  // namespace verbatim::cli
