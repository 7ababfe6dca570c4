// Google's API, and the calls of every API that count tokens or embed texts: what is read of their requests and answers.

#include "gateway/gemini.hpp"

#include "gateway/cache.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/response_facts.hpp"
#include "gateway/route_match.hpp"
#include "tests/gateway/request_head.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace verbatim::gateway {
namespace {

/// What a leaf says of such an answer.
Json told(const ResponseFacts& facts) {
  Json leaf = Json::object();
  facts.describe(leaf);
  return leaf;
}

TEST(Gemini, IsReadFromThePathsLastSegment) {
  for (const char* base :
       {"/v1beta/models/", "/v1/models/", "/models/", "/proxy/v1beta/tunedModels/",
        "/v1/projects/p/locations/l/publishers/google/models/",
        "/v1beta1/projects/p/locations/l/endpoints/", "/V1BETA/MODELS/"}) {
    const auto api = [&](const std::string& method, const char* query = "") {
      return api_of(head_of("POST", base + ("m:" + method) + query));
    };
    EXPECT_EQ(api("generateContent"), Api::gemini_generate_content) << base;
    EXPECT_EQ(api("streamGenerateContent", "?alt=sse&key=k"), Api::gemini_generate_content) << base;
    EXPECT_EQ(api("countTokens"), Api::gemini_count_tokens) << base;
    EXPECT_EQ(api("embedContent"), Api::gemini_embed_content) << base;
    EXPECT_EQ(api("batchEmbedContents"), Api::gemini_embed_content) << base;
    EXPECT_EQ(api("predict"), Api::generic) << base;
    EXPECT_EQ(api("generateContentX"), Api::generic) << base;
  }
  EXPECT_EQ(api_of(head_of("POST", "/v1beta/models/m%3AgenerateContent")),
            Api::gemini_generate_content);
  for (const char* other : {"/v1beta/models/:generateContent", "/v1beta/m:generateContent",
                            "/v1beta/models/m/x:countTokens", "/v1beta/models:generateContent",
                            "/v1beta/cachedContents/m:generateContent", "/:", "%"}) {
    EXPECT_EQ(api_of(head_of("POST", other)), Api::generic) << other;
  }
  // Nothing that a server may take for a call passes for a look at a model.
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/m:generateContent")), Api::generic);
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/llama3:8b")), Api::openai_models);
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/m", {{"X-HTTP-Method-Override", "POST"}})),
            Api::generic);
}

/// What a request names as its model, from its body and its path; "-" if it names two.
std::string model_of(const std::string& target, const std::string& body = "{}") {
  const Api api = api_of(head_of("POST", target));
  RequestFacts facts = read_request(api, body);
  read_target(api, target, facts);
  return facts.two_models ? "-" : facts.model;
}

TEST(Gemini, TheModelIsThePathsAndNobodyElses) {
  EXPECT_EQ(model_of("/v1beta/models/gemini-2.5-flash:generateContent?key=k"), "gemini-2.5-flash");
  EXPECT_EQ(model_of("/v1beta/models/gemini%2D2.5%2dflash:generateContent"), "gemini-2.5-flash");
  EXPECT_EQ(model_of("/v1beta/tunedModels/x:countTokens"), "tunedModels/x");
  EXPECT_EQ(model_of("/v1/projects/p/locations/l/publishers/google/models/g:generateContent"), "g");
  EXPECT_EQ(model_of("/v1/projects/p/locations/l/publishers/meta/models/g:generateContent"),
            "publishers/meta/models/g");
  EXPECT_EQ(model_of("/v1/projects/p/locations/l/endpoints/7:generateContent"), "endpoints/7");
  EXPECT_EQ(model_of("/v1/projects/p/locations/l/publishers/google/models/g:predict"), "g");
  const std::string batch = "/v1beta/models/e:batchEmbedContents";
  for (const char* same :
       {R"({"model":"models/e"})", R"({"model":"publishers/google/models/e"})", R"({"model":null})",
        R"({"requests":[{"model":"models/e"},{"model":"e"},{}]})", "no JSON"}) {
    EXPECT_EQ(model_of(batch, same), "e") << same;
  }
  for (const char* other :
       {R"({"model":"models/f"})", R"({"requests":[{"model":"models/e"},{"model":"models/f"}]})",
        R"({"generateContentRequest":{"model":"models/f"}})",
        R"({"generate_content_request":{"model":"f"}})", R"({"mod\u0065l":"f"})",
        R"({"model":"tunedModels/e"})", R"({"model":"f","requests":[{"model":"e"}]})"}) {
    EXPECT_EQ(model_of(batch, other), "-") << other;
  }
  // Of a method that is not known here as well.
  EXPECT_EQ(model_of("/v1/models/e:predict", R"({"model":"f"})"), "-");
}

TEST(Gemini, NoWayToWriteAPathHidesWhichModelItNames) {
  const auto hides = [](const std::string& target, const char* model) {
    return names_another_model(head_of("POST", target), model);
  };
  EXPECT_FALSE(hides("/v1beta/models/m:generateContent?x=/models/n:generateContent", "m"));
  EXPECT_FALSE(hides("/v1beta/models/m%3AgenerateContent", "m"));
  EXPECT_FALSE(hides("/v1beta/tunedModels/Tuned-1:generateContent", "tunedModels/Tuned-1"));
  EXPECT_FALSE(hides("/v1/chat/completions", "gpt-5"));
  EXPECT_FALSE(hides("/v1/models/llama3:8b", "llama3:8b"));
  for (const char* target :
       {"/v1beta/models/n:generateContent", "/v1beta/models/n%3AgenerateContent",
        "/v1beta/models/n%253AgenerateContent", "/v1beta/%256Dodels/n:generateContent",
        "/v1beta/models/m:generateContent/../n:generateContent",
        "/v1beta/models/m%2F..%2Fn:generateContent", "/v1beta/models%2fn:generateContent",
        "/v1beta//models//n:generateContent", "/v1beta/models\\n:generateContent",
        "/v1beta/models/n:generateContent;/chat/completions", "/v1beta/models/n:generateContent/",
        "/v1beta/MODELS/n:GENERATECONTENT", "/v1beta/models/n:predict",
        "/v1beta/models/m%00n:generateContent", "/v1beta/models/n%2f:generateContent",
        "/v1beta/models/m/n:streamGenerateContent",
        "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"}) {
    EXPECT_TRUE(hides(target, "m")) << target;
  }
}

TEST(Gemini, SamplingIsReadFromGenerationConfigUnderEitherName) {
  const auto facts = read_request(
      Api::gemini_generate_content,
      R"({"contents":[],"generationConfig":{"temperature":0.0,"topP":0.950,"top_k":40,"seed":7,"maxOutputTokens":64,)"
      R"("stopSequences":["a"],"candidateCount":2,"thinkingConfig":{"thinkingBudget":0}},"temperature":1})");
  EXPECT_TRUE(facts.is_json);
  EXPECT_EQ(determinism_of(facts), "greedy");
  EXPECT_TRUE(facts.seeded);
  const std::vector<std::pair<std::string, std::string>> want = {
      {"temperature", "0.0"},
      {"top_p", "0.950"},
      {"top_k", "40"},
      {"seed", "7"},
      {"max_output_tokens", "64"},
      {"stop_sequences", R"(["a"])"},
      {"candidate_count", "2"},
      {"thinking_config", R"({"thinkingBudget":0})"}};
  EXPECT_EQ(facts.params, want);
  const auto determinism = [](const char* body) {
    return determinism_of(read_request(Api::gemini_generate_content, body));
  };
  EXPECT_EQ(determinism(R"({"generation_config":{"temperature":"0"}})"), "greedy");
  EXPECT_EQ(determinism(R"({"generationConfig":{"seed":1}})"), "seeded");
  EXPECT_EQ(determinism(R"({"temperature":0,"seed":1})"), "sampled");
  const auto stateful = [](const char* body) {
    return read_request(Api::gemini_generate_content, body).stateful;
  };
  EXPECT_TRUE(stateful(R"({"cachedContent":"cachedContents/x"})"));
  EXPECT_TRUE(stateful(R"({"cached_content":"cachedContents/x"})"));
  EXPECT_FALSE(stateful(R"({"cachedContent":"","contents":[]})"));
  // Which of two members of one name a server takes is not known, in whatever form the names are.
  for (const char* unclear : {R"({"generationConfig":{"topP":1,"top_p":0}})",
                              R"({"generationConfig":{},"generation_config":{}})",
                              R"({"generationConfig":{"seed":1,"seed":2}})",
                              R"({"requests":[{"model":"a","model":"a"}]})"}) {
    EXPECT_FALSE(read_request(Api::gemini_generate_content, unclear).is_json) << unclear;
  }
  RequestFacts streamed = read_request(Api::gemini_generate_content, "{}");
  read_target(Api::gemini_generate_content, "/v1beta/models/m:streamGenerateContent", streamed);
  EXPECT_TRUE(streamed.stream);
  EXPECT_EQ(streamed.params.back(), std::pair(std::string("stream"), std::string("true")));
}

TEST(Gemini, IsNotCached) {
  CachePolicy policy;
  policy.always = true;
  EXPECT_FALSE(is_cacheable(
      policy, head_of("POST", "/v1beta/models/m:generateContent"), Api::gemini_generate_content,
      read_request(Api::gemini_generate_content, R"({"generationConfig":{"temperature":0}})")));
}

TEST(Gemini, TheCredentialMayBeInTheQuery) {
  const auto credential = [](const char* target, std::vector<Field> fields = {}) {
    return credential_of(head_of("POST", target, std::move(fields)));
  };
  const char* call = "/v1beta/models/m:generateContent?alt=sse&k%65y=AIza-1&x=2";
  EXPECT_EQ(credential(call), "AIza-1");
  EXPECT_EQ(credential(call, {{"x-goog-api-key", "header"}}), "header");
  EXPECT_EQ(credential("/v1beta/models/m:generateContent?access_token=ya29.x"), "ya29.x");
  // Nobody else's: there it is a parameter like any other.
  EXPECT_EQ(credential("/v1/chat/completions?key=k"), "");
  const auto bare = [](const char* target) { return without_credentials(head_of("POST", target)); };
  EXPECT_EQ(bare(call), "/v1beta/models/m:generateContent?alt=sse&x=2");
  EXPECT_EQ(bare("/v1beta/files?key=a&KEY=b;access%5Ftoken=c"), "/v1beta/files");
  EXPECT_EQ(bare("/v1beta/files?key=a;b=1&key=c&monkey=2"), "/v1beta/files?b=1&monkey=2");
  EXPECT_EQ(bare("/v1beta/files"), "/v1beta/files");
  EXPECT_EQ(bare("/v1/chat/completions?key=k"), "/v1/chat/completions?key=k");
}

constexpr const char* kGeminiFirst =
    R"({"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"index":0},{"index":1}],)"
    R"("usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,"totalTokenCount":4},"modelVersion":"g-001","responseId":"r1"})";
constexpr const char* kGeminiSecond =
    R"({"candidates":[{"content":{"parts":[{"text":"!"}]},"finishReason":"STOP","index":0}]})";
constexpr const char* kGeminiLast =
    R"({"candidates":[{"finishReason":"MAX_TOKENS","index":1}],"usageMetadata":{"promptTokenCount":3,)"
    R"("candidatesTokenCount":9,"totalTokenCount":19,"cachedContentTokenCount":2,"thoughtsTokenCount":7}})";

TEST(Gemini, StreamsAreReadInBothForms) {
  const Json want = {{"upstream", {{"model", "g-001"}, {"response_id", "r1"}}},
                     {"usage",
                      {{"input_tokens", 3},
                       {"output_tokens", 9},
                       {"total_tokens", 19},
                       {"cached_input_tokens", 2},
                       {"reasoning_tokens", 7}}},
                     {"finish", {"STOP", "MAX_TOKENS"}}};
  const auto event = [](const char* data) { return std::string("data: ") + data + "\r\n\r\n"; };
  ResponseFacts events(Api::gemini_generate_content);
  events.read_event(event(kGeminiFirst));
  EXPECT_FALSE(events.finished());
  events.read_event(event(kGeminiSecond));
  EXPECT_FALSE(events.finished());  // one candidate of two
  events.read_event(event(kGeminiLast));
  EXPECT_TRUE(events.finished());
  EXPECT_EQ(told(events), want);

  const std::string array =
      std::string("[") + kGeminiFirst + "\n,\r\n" + kGeminiSecond + "," + kGeminiLast + "\n]\n";
  ResponseFacts items(Api::gemini_generate_content);
  items.read_json(array);
  EXPECT_FALSE(items.cut_array());
  EXPECT_EQ(items.events(), 3u);
  EXPECT_EQ(told(items), want);
  for (const std::size_t bytes : {std::size_t{1}, array.size() / 2, array.size() - 2}) {
    ResponseFacts cut(Api::gemini_generate_content);
    cut.read_json(array.substr(0, bytes));
    EXPECT_TRUE(cut.cut_array()) << bytes;
  }
}

TEST(Gemini, ABlockedPromptAndAnErrorEndAnAnswer) {
  ResponseFacts blocked(Api::gemini_generate_content);
  blocked.read_json(
      R"({"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}})");
  EXPECT_TRUE(blocked.finished());
  EXPECT_EQ(told(blocked),
            Json({{"upstream", {{"block_reason", "SAFETY"}}}, {"usage", {{"input_tokens", 3}}}}));
  ResponseFacts failed(Api::gemini_generate_content);
  failed.read_event("data: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}\n\n");
  EXPECT_TRUE(failed.error_event());
  ResponseFacts open(Api::gemini_generate_content);
  open.read_json(
      R"({"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}],"promptFeedback":{"blockReason":"BLOCK_REASON_UNSPECIFIED"}})");
  EXPECT_FALSE(open.finished());
}

TEST(Gemini, SurvivesAnything) {
  for (const char* body :
       {"", "[", "[]", "[null,7]", "{\"usageMetadata\":7,\"candidates\":{},\"promptFeedback\":[]}",
        "{\"usageMetadata\":{\"promptTokenCount\":-1,\"totalTokenCount\":\"3\"}}",
        "{\"candidates\":[null,{\"finishReason\":{},\"index\":\"0\"}]}"}) {
    ResponseFacts facts(Api::gemini_generate_content);
    facts.read_json(body);
    EXPECT_EQ(told(facts), Json::object()) << body;
    EXPECT_FALSE(facts.finished()) << body;
  }
}

TEST(Embeddings, SayModelAndShapeAndSampleNothing) {
  const auto facts =
      read_request(Api::openai_embeddings,
                   R"({"model":"e","input":["a"],"dimensions":256,"encoding_format":"base64"})");
  EXPECT_EQ(facts.model, "e");
  const std::vector<std::pair<std::string, std::string>> want = {{"dimensions", "256"},
                                                                 {"encoding_format", "base64"}};
  EXPECT_EQ(facts.params, want);
  EXPECT_FALSE(may_sample(Api::openai_embeddings));
  EXPECT_TRUE(may_sample(Api::gemini_generate_content));
  const auto gemini = read_request(
      Api::gemini_embed_content,
      R"({"content":{},"taskType":"CLUSTERING","outputDimensionality":64,"title":"t"})");
  const std::vector<std::pair<std::string, std::string>> other = {{"task_type", "CLUSTERING"},
                                                                  {"output_dimensionality", "64"}};
  EXPECT_EQ(gemini.params, other);
}

TEST(ResponseFacts, ACountOfTokensIsNoUsageOfThem) {
  ResponseFacts gemini(Api::gemini_count_tokens);
  gemini.read_json(
      R"({"totalTokens":31,"promptTokensDetails":[{"modality":"TEXT","tokenCount":31}]})");
  EXPECT_EQ(told(gemini), Json({{"usage", {{"counted_tokens", 31}}}}));
  ResponseFacts anthropic(Api::anthropic_count_tokens);
  anthropic.read_json(R"({"input_tokens":14})");
  EXPECT_EQ(told(anthropic), Json({{"usage", {{"counted_tokens", 14}}}}));
}

TEST(ResponseFacts, EmbeddingsTellModelAndUsage) {
  ResponseFacts facts(Api::openai_embeddings);
  facts.read_json(
      R"({"object":"list","data":[{"index":0,"embedding":[0.1]}],"model":"e-1","usage":{"prompt_tokens":8,"total_tokens":8}})");
  EXPECT_EQ(told(facts), Json({{"upstream", {{"model", "e-1"}}},
                               {"usage", {{"input_tokens", 8}, {"total_tokens", 8}}}}));
}

}  // namespace
}  // namespace verbatim::gateway
