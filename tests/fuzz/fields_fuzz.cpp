// Heads: values of headers and targets, what is hidden of them, and which rules and caches they lead to.

#include "gateway/cache.hpp"
#include "gateway/capture.hpp"
#include "gateway/gemini.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/http.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/response_facts.hpp"
#include "gateway/retention_rules.hpp"
#include "gateway/route_match.hpp"
#include "schema/canonical_json.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

using namespace gateway;

/// A request's line, then a header a line.
RequestHead read_head(std::string_view input) {
  RequestHead head;
  head.method = take_part(input, ' ');
  head.target = take_part(input, '\n');
  while (!input.empty()) {
    std::string_view line = take_part(input, '\n');
    const std::string_view name = take_part(line, ':');
    head.fields.add(name, line);
  }
  return head;
}

void check_hidden(const Fields& fields) {
  const std::string shown = fields_as_json(fields);
  const auto json = parse_json(shown);
  VERBATIM_CHECK(json.has_value());
  VERBATIM_CHECK(json->size() == fields.all().size());
  for (std::size_t i = 0; i < fields.all().size(); ++i) {
    if (is_secret_field(fields.all()[i].name)) VERBATIM_CHECK((*json)[i][1] == "REDACTED");
  }
  Fields without = fields;
  remove_credentials(without);
  for (const std::string_view name : {"authorization", "x-api-key", "api-key", "x-goog-api-key"}) {
    VERBATIM_CHECK(!without.has(name));
  }
  VERBATIM_CHECK(credential_of(without).empty());
  Fields stripped = fields;
  strip_hop_by_hop(stripped);
  for (const std::string_view name : {"connection", "transfer-encoding", "upgrade"}) {
    VERBATIM_CHECK(!stripped.has(name));
  }
}

void check_target(std::string_view target) {
  const std::string hidden = redacted_target(target);
  VERBATIM_CHECK(redacted_target(hidden) == hidden);
  VERBATIM_CHECK(percent_decoded(target).size() <= target.size());
  (void)query_parameter(target, "key");
  for (const std::size_t bytes_max : {0, 1, 7, 100}) {
    const std::string text = leaf_text(target, bytes_max);
    VERBATIM_CHECK(is_utf8(text) && text.size() <= bytes_max);
  }
}

RouteMatch route(std::string path, std::string api) {
  RouteMatch match;
  match.path = std::move(path);
  match.api = std::move(api);
  return match;
}

void check_rules(const RequestHead& head) {
  const Api api = api_of(head);
  VERBATIM_CHECK(api_named(api_name(api)) == api);
  const std::vector<CaptureRule> levels = {
      {"a", route("/v1/embeddings*", ""), CaptureLevel::metadata},
      {"b", route("*", "openai.chat"), CaptureLevel::hashes}};
  Capture capture(levels, {}, head, "openai");
  VERBATIM_CHECK(capture.target(head.target).size() <= 8 * head.target.size() + 8);
  (void)RouteForms(head, "openai").all();
  const std::vector<RetentionRule> retention = {{route("/v1/*", ""), {"law", 10, "basis"}},
                                                {route("*", "anthropic.messages"), {"x", 20, "y"}}};
  (void)retention_for(retention, head, "openai");
  CachePolicy policy;
  policy.always = true;
  RequestFacts facts;
  facts.is_json = true;
  (void)is_cacheable(policy, head, api, facts);
  VERBATIM_CHECK(caller_scope(head).size() >= head.target.size());
  const Dialect dialect = dialect_of(head);
  RequestHead bare = head;
  remove_credentials(bare.fields);
  bare.target = without_credentials(bare);
  VERBATIM_CHECK(bare.target.size() <= head.target.size());
  VERBATIM_CHECK(credential_of(bare).empty());
  if (dialect == Dialect::gemini) {
    VERBATIM_CHECK(error_body(dialect, 400, "", "", "").find("INVALID_ARGUMENT") !=
                   std::string::npos);
  }
  // What is read of the path is one of the ways to read it.
  RequestFacts asked;
  read_target(api, head.target, asked);
  if (!asked.model.empty()) {
    const auto call = method_call_of(head.target.substr(0, head.target.find('?')));
    VERBATIM_CHECK(call && call->model == asked.model);
    VERBATIM_CHECK(names_another_model(head, asked.model + "-other"));
  }
  (void)may_stream_body(api, head.fields);
  ResponseHead answer;
  answer.status = 200;
  answer.fields = head.fields;
  ResponseFacts told(api);
  told.read_head(answer);
  Json leaf = Json::object();
  told.describe(leaf);
  VERBATIM_CHECK(canonical(leaf).size() < 65'536);
}

void run(std::string_view input) {
  const RequestHead head = read_head(input);
  check_hidden(head.fields);
  check_target(head.target);
  check_rules(head);
}

std::vector<std::string> seeds() {
  return {
      "POST /v1/chat/completions?key=abc&x=1;api%5Fkey=s\nHost:a\nAuthorization: Bearer sk-1\n"
      "Cache-Control: no-store, max-age=0\nConnection:keep-alive, x-hop\nX-Hop:1",
      "POST //V1/./messages/../%6Dessages/\nanthropic-version: 2023-06-01\nx-api-key:k\n"
      "content-type:application/json",
      "GET /v1/realtime?model=m\nSec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-2, "
      "x\n"
      "Upgrade: websocket\nConnection: upgrade",
      "POST /v1beta/models/m%2Dx:streamGenerateContent?alt=sse&k%65y=AIza;access_token=t\n"
      "x-goog-api-key: k\nReferer: https://h/p?key=k",
      "POST /v1/projects/p/locations/l/publishers/google/models/m%3AgenerateContent",
      "GET /\nx-request-id:r\nopenai-version:v\nx-ratelimit-remaining-tokens:5\n"
      "retry-after: 20\ncf-ray:1\ntraceparent: "
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  };
}

const Registration kFields({"fields",
                            run,
                            seeds,
                            {"%2F",
                             "%2e%2e",
                             "%25",
                             "/../",
                             "/./",
                             "//",
                             "openai-insecure-api-key.",
                             "no-store",
                             "no-cache",
                             "Connection:",
                             "\nAuthorization:",
                             "Bearer ",
                             "sec-websocket-protocol:",
                             "max-age=",
                             "\xFF",
                             "access_token=",
                             "?key=",
                             "%3A",
                             ":generateContent",
                             "/v1beta/models/",
                             "tunedModels/",
                             "publishers/",
                             "://"}});

}  // namespace

}  // namespace verbatim::fuzz
