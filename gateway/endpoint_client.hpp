#pragma once
// Many questions to one remote endpoint, asked by ourselves: what a probe is made of. The same HTTP client that
// carries the gateway's traffic, so that what is measured is what clients meet.

#include "gateway/config.hpp"
#include "gateway/http.hpp"
#include "schema/clock.hpp"
#include "schema/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::gateway {

/// One POST. `fields` hold all but Host and Content-Length.
struct EndpointQuestion {
  std::string target;
  Fields fields;
  std::string body;
};

/// What came back. `error_kind` is "" for a whole HTTP answer of any status; else `resolve`, `connect`,
/// `connect_timeout`, `tls`, `timeout`, `truncated`, `malformed_response`, `response_too_large`, `coding`, ...
struct EndpointAnswer {
  int status = 0;
  Fields fields;
  std::string body;  ///< content codings undone
  std::string error_kind, error_message;
  std::int64_t total_us = 0;
};

struct EndpointOptions {
  BaseUrl url;
  std::filesystem::path ca_file;  ///< PEM; "" is the system's store
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds total{120'000};  ///< for one question, from connecting to the last byte
  std::uint64_t response_bytes_max = 16u << 20;
};

/// Other traffic to keep going while questions are asked.
struct Neighbours {
  std::size_t count = 0;                   ///< in flight at any moment
  std::function<EndpointQuestion()> next;  ///< makes the next one; called on the asking thread
  std::size_t answered = 0,
              failed = 0;  ///< set when asking has ended; those cut off at the end are in neither
};

/// Asks `questions` in order, at most `concurrency` at once, and gives each answer to `on_answer` as it comes, on the
/// calling thread. When that returns false, no more are asked. Returns when every question that was asked has its answer.
/// An endpoint's failures are answers; an error here (`invalid_input`) is an unreadable CA file.
[[nodiscard]] Result<void> ask_endpoint(
    const EndpointOptions& options, const std::vector<EndpointQuestion>& questions,
    std::size_t concurrency, Neighbours& neighbours, const Clock& clock,
    const std::function<bool(std::size_t index, EndpointAnswer answer)>& on_answer);

}  // namespace verbatim::gateway
