#pragma once
// A recorded exchange under the names of OpenTelemetry's conventions for generative AI (schema/opentelemetry.md).

#include "schema/canonical_json.hpp"

namespace verbatim::cli {

/// A span: `name`, `kind`, `start_time_unix_nano`, `end_time_unix_nano`, `attributes`; with `trace_id` and
/// `parent_span_id` if the client sent a traceparent. What was not recorded is absent. Neither a text of the exchange nor
/// a digest of one is in it. `response` is null while the exchange is open.
[[nodiscard]] OrderedJson opentelemetry_span(const Json& request, const Json& response);

}  // namespace verbatim::cli
