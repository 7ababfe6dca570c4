#pragma once
// One question over HTTP to a service that vouches for the log: a witness, a time-stamping authority.

#include "gateway/endpoint_client.hpp"

#include <cstdint>
#include <string>

namespace verbatim::cli {

struct Post {
  std::string service;  ///< "the witness": for errors
  std::string url;      ///< as it was given: for errors
  gateway::BaseUrl base;
  std::string target, content_type, body;
  std::string ca_file;  ///< PEM; "" is the system's store
  std::uint64_t answer_bytes_max = 0;
};

/// The answer, of any status. `upstream_failed` if there is no whole one within half a minute.
[[nodiscard]] Result<gateway::EndpointAnswer> post(const Post& what);

}  // namespace verbatim::cli
