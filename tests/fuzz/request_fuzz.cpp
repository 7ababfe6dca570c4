// Bodies of requests: what is read of them, and the preimages of cache keys.

#include "gateway/body_parts.hpp"
#include "gateway/cache.hpp"
#include "gateway/dialect.hpp"
#include "gateway/json_scan.hpp"
#include "schema/canonical_json.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using namespace gateway;

RequestHead head_of(Api api) {
  RequestHead head;
  head.method = "POST";
  head.target = api == Api::anthropic_messages ? "/v1/messages" : "/v1/chat/completions";
  return head;
}

void check_request(Api api, std::string_view body) {
  const RequestFacts facts = read_request(api, body);
  const RequestHead head = head_of(api);
  CachePolicy policy;
  (void)is_cacheable(policy, head, api, facts);
  (void)determinism_of(facts);
  if (!facts.is_json) {
    VERBATIM_CHECK(facts.model.empty() && facts.params.empty());
    return;
  }
  VERBATIM_CHECK(is_json(body));
  const auto preimage = cache_preimage(head, api, body, "model", "scope");
  if (!preimage) return;
  // The same question in canonical form is the same question.
  const auto canonical_body = canonicalize(body, Numbers::literal);
  if (!canonical_body) return;  // for a member that is no part of the question
  VERBATIM_CHECK(cache_preimage(head, api, *canonical_body, "model", "scope") == preimage);
  VERBATIM_CHECK(cache_preimage(head, api, body, "model", "other") != preimage);
  const RequestFacts again = read_request(api, *canonical_body);
  VERBATIM_CHECK(again.is_json && again.model == facts.model && again.stream == facts.stream);
  VERBATIM_CHECK(again.greedy == facts.greedy && again.seeded == facts.seeded);
  VERBATIM_CHECK(again.stateful == facts.stateful);
  // A model in the path is the request's, or none is.
  RequestFacts by_path = facts;
  read_target(api, "/v1beta/models/m:streamGenerateContent?key=k", by_path);
  const bool other = facts.two_models || (!facts.model.empty() && facts.model != "m");
  if (api != Api::openai_models && facts.model.find('/') == std::string::npos) {
    VERBATIM_CHECK(by_path.model == (other ? "" : "m"));
  }
}

void check_parts(std::string_view type, std::string_view body, bool answer) {
  std::size_t at = 0;
  for (const BodyPart& part : take_apart(type, body, answer).parts) {
    VERBATIM_CHECK(part.begin >= at && part.end >= part.begin && part.end <= body.size());
    at = part.end;
    if (part.kind == BodyPart::Kind::json) {
      VERBATIM_CHECK(is_json(body.substr(part.begin, part.end - part.begin)));
    }
  }
}

void run(std::string_view body) {
  for (const Api api :
       {Api::generic, Api::openai_chat, Api::openai_completions, Api::openai_responses,
        Api::openai_embeddings, Api::anthropic_messages, Api::anthropic_count_tokens,
        Api::gemini_generate_content, Api::gemini_count_tokens, Api::gemini_embed_content}) {
    check_request(api, body);
  }
  for (const std::string_view type : {"application/json", "text/plain", "text/event-stream", ""}) {
    for (const bool answer : {false, true}) check_parts(type, body, answer);
  }
  for (const Dialect dialect : {Dialect::openai, Dialect::anthropic, Dialect::gemini}) {
    VERBATIM_CHECK(is_json(error_body(dialect, 400, body, body, "record")));
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0,"stream":true,"stream_options":{"include_usage":true},"seed":7,"user":"u","metadata":{}})",
      R"({"model":"m","prompt":["a","b"],"max_tokens":5,"logprobs":1,"temperature":0.0,"top_p":1e-1})",
      R"({"model":"c","max_tokens":5,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"temperature":-0.0})",
      R"({"model":"r","input":"Hi","store":false,"previous_response_id":"x","conversation":null,"background":true})",
      R"({"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"temperature":"0","topP":1,"seed":7,"stopSequences":["x"]},"cachedContent":"cachedContents/x","model":"models/m"})",
      R"({"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},{"model":"models/n"}],"generateContentRequest":{"model":"m"},"task_type":"CLUSTERING"})",
      "{\"a\":1}\n{\"b\":2}\n",
      "data: {\"a\":1}\n\ndata: [DONE]\n\n",
      "plain text",
  };
}

const Registration kRequest({"request",
                             run,
                             seeds,
                             {"\"temperature\":",
                              "\"seed\":",
                              "\"stream\":true",
                              "\"stream_options\":{",
                              "\"model\":",
                              "\"n\":",
                              "0e5",
                              "-0",
                              "0.0000",
                              "\\u0061",
                              "\"store\":",
                              "\"tools\":[",
                              "data: ",
                              "null",
                              "\"generationConfig\":{",
                              "\"generation_config\":",
                              "\"top_p\":",
                              "\"topP\":",
                              "\"requests\":[{",
                              "models/"}});

}  // namespace

}  // namespace verbatim::fuzz
