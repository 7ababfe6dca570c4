// What is read from requests and answers, and what is hidden of them: without sockets.

#include "gateway/cache.hpp"
#include "gateway/content_coding.hpp"
#include "gateway/dialect.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/leaf_texts.hpp"
#include "gateway/response_facts.hpp"
#include "gateway/sse.hpp"
#include "tests/gateway/request_head.hpp"

#include <brotli/encode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

namespace verbatim::gateway {
namespace {

// ---- JSON in place

TEST(JsonScan, AcceptsWhatRfc8259AcceptsAndNothingElse) {
  for (const char* good :
       {"{}", " [1, -0.5e+3, \"\\u00e9\\n\", true, null] ", "\"x\"", "0", "{\"a\":{\"b\":[]}}"}) {
    EXPECT_TRUE(is_json(good)) << good;
  }
  for (const char* bad : {"", "{", "{\"a\":}", "[1,]", "01", "1.", "\"\\x\"", "\"\n\"", "{} {}",
                          "nul", "{a:1}", "-", "\"\\u12\"", "[1 2]", "{\"a\" 1}"}) {
    EXPECT_FALSE(is_json(bad)) << bad;
  }
}

TEST(JsonScan, BoundsNesting) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(is_json(deep));
  EXPECT_TRUE(is_json(std::string(500, '[') + std::string(500, ']')));
}

TEST(JsonScan, GivesTheVeryTokensThatWereSent) {
  std::string seen;
  EXPECT_TRUE(each_member(R"( {"a" : 1.0e0 ,"b":[1, 2]} )", [&](const JsonMember& member) {
    seen += std::string(member.key) + "=" + std::string(member.value) + ";";
  }));
  EXPECT_EQ(seen, "a=1.0e0;b=[1, 2];");
  EXPECT_EQ(json_string(R"("a\"\u00e9")"), "a\"\xC3\xA9");
  EXPECT_EQ(json_integer("-7"), -7);
  EXPECT_EQ(json_integer("7.0"), std::nullopt);
  EXPECT_EQ(json_integer("99999999999999999999"), std::nullopt);
}

TEST(JsonScan, WritesBytesThatAreNotUtf8AsLatin1) {
  std::string out;
  append_json_string(out, "a\xE9\"\x01");
  EXPECT_EQ(out, "\"a\xC3\xA9\\\"\\u0001\"");
}

// ---- server-sent events

/// The events of a stream that comes in pieces of the given size, each parsed: "event|data;".
std::string events_in_pieces(const std::string& stream, std::size_t piece) {
  SseScanner scanner;
  std::string out;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    scanner.push(std::string_view(stream).substr(at, piece));
    for (const EventSpan& span : scanner.take_events()) {
      const SseEvent event =
          parse_sse_event(std::string_view(stream).substr(span.begin, span.end - span.begin));
      out.append(event.event()).append("|").append(event.data()).append(";");
    }
  }
  return out;
}

TEST(Sse, EventsAreTheSameInPiecesOfAnySize) {
  const std::string stream =
      "\xEF\xBB\xBF: hello\n\ndata:no blank\n\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\ndata: "
      "\xC3\xA9\r\rid: 7\n\n"
      "data\n\n: ping\n\nretry: 1\ndata: last\n\ndata: never ended";
  const std::string want = "|no blank;a|1\n2;|\xC3\xA9;|;|;|last;";
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    EXPECT_EQ(events_in_pieces(stream, piece), want) << "pieces of " << piece;
  }
}

TEST(Sse, HoldsBackATerminalEventFromItsFirstByte) {
  const std::string before = "data: {\"a\":\"[DONE]\"}\n\n";
  for (const std::string terminal :
       {"data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "event: message_stop\ndata: {}\n\n",
        "event: response.completed\ndata: {}\n\n", "event: response.incomplete\ndata: {}\n\n",
        "event: response.failed\ndata: {}\n\n"}) {
    SseScanner scanner;
    scanner.push(before);
    EXPECT_EQ(scanner.free_until(), before.size());
    for (std::size_t i = 0; i < terminal.size(); ++i) {
      if (i + 2 < terminal.size()) {  // with CRLF the CR of the blank line already ends it
        EXPECT_FALSE(scanner.terminal_seen()) << terminal.substr(0, i);
      }
      scanner.push(std::string_view(terminal).substr(i, 1));
      // A few first letters may be of any line; from there on nothing goes out.
      EXPECT_LE(scanner.free_until(), before.size()) << terminal.substr(0, i + 1);
    }
    EXPECT_TRUE(scanner.terminal_seen());
  }
}

TEST(Sse, AByteOrderMarkIsHeldBackWithTheTerminalEventBehindIt) {
  SseScanner scanner;
  for (const char byte : std::string_view("\xEF\xBB\xBF"
                                          "data: [DONE]\n\n")) {
    scanner.push({&byte, 1});
    EXPECT_EQ(scanner.free_until(), 0u);
  }
  EXPECT_TRUE(scanner.terminal_seen());
  SseScanner other;
  other.push("\xEF\xBB");
  EXPECT_EQ(other.free_until(), 0u);
  other.push("x");
  EXPECT_EQ(other.free_until(), 3u);
}

TEST(Sse, LetsGoWhatOnlyBeganLikeATerminalEvent) {
  SseScanner scanner;
  scanner.push("event: message_sto");
  EXPECT_EQ(scanner.free_until(), 0u);
  scanner.push("ry\n");
  EXPECT_EQ(scanner.free_until(), 21u);
  scanner.push("data: [DONE] but not only\n\n");
  EXPECT_EQ(scanner.free_until(), 48u);
  EXPECT_FALSE(scanner.terminal_seen());
}

TEST(Sse, TakesLinesOfMegabytes) {
  const std::string stream = "data: " + std::string(16u << 20, 'x') + "\n\n";
  EXPECT_EQ(events_in_pieces(stream, 65536).size(), (16u << 20) + 2);
}

// ---- requests

TEST(Dialect, IsReadFromPathMethodAndVersionHeader) {
  EXPECT_EQ(api_of(head_of("POST", "/v1/chat/completions?x=1")), Api::openai_chat);
  EXPECT_EQ(api_of(head_of("POST", "/chat/completions")), Api::openai_chat);
  EXPECT_EQ(api_of(head_of("POST", "/v1/completions")), Api::openai_completions);
  EXPECT_EQ(api_of(head_of("POST", "/v1/responses")), Api::openai_responses);
  EXPECT_EQ(api_of(head_of("POST", "/anthropic/v1/messages")), Api::anthropic_messages);
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/a%2Fb")), Api::openai_models);
  EXPECT_EQ(api_of(head_of("GET", "/v1/chat/completions")), Api::generic);
  EXPECT_EQ(api_of(head_of("POST", "/v1/embeddings")), Api::openai_embeddings);
  EXPECT_EQ(api_of(head_of("POST", "/v1/messages/count_tokens")), Api::anthropic_count_tokens);
  EXPECT_EQ(api_of(head_of("POST", "/api/chat")), Api::generic);
  const auto dialect = [](const char* target, std::vector<Field> fields = {}) {
    return dialect_of(head_of("GET", target, std::move(fields)));
  };
  EXPECT_EQ(dialect("/v1/messages/count_tokens"), Dialect::anthropic);
  EXPECT_EQ(dialect("/v1/models", {{"Anthropic-Version", "x"}}), Dialect::anthropic);
  EXPECT_EQ(dialect("/v1/models"), Dialect::openai);
  EXPECT_EQ(dialect("/v1/models", {{"X-Goog-Api-Key", "k"}}), Dialect::gemini);
  EXPECT_EQ(dialect("/v1/models?key=k"), Dialect::gemini);
  EXPECT_EQ(dialect("/v1beta/files"), Dialect::gemini);
  EXPECT_EQ(dialect("/upload/v1beta/files"), Dialect::gemini);
  EXPECT_EQ(dialect("/v1/models/m%3AgenerateContent"), Dialect::gemini);
  // A header of Google's on a path of another API does not make it Google's.
  EXPECT_EQ(dialect_of(head_of("POST", "/v1/chat/completions", {{"x-goog-api-key", "k"}})),
            Dialect::openai);
}

TEST(Dialect, RequestsAreGreedyOnlyWhenTheySayTemperatureZero) {
  for (const char* zero : {"0", "0.0", "-0", "0e3", "0.00E-2"}) {
    EXPECT_EQ(determinism_of(
                  read_request(Api::openai_chat, std::string("{\"temperature\":") + zero + "}")),
              "greedy")
        << zero;
  }
  for (const char* other : {"{}", R"({"temperature":0.1})", R"({"temperature":null})",
                            R"({"temperature":"0"})", R"({"seed":null})"}) {
    EXPECT_EQ(determinism_of(read_request(Api::openai_chat, other)), "sampled") << other;
  }
  EXPECT_EQ(determinism_of(read_request(Api::openai_chat, R"({"seed":1})")), "seeded");
}

TEST(Dialect, WhatServersMayReadInTwoWaysIsNotRead) {
  EXPECT_EQ(read_request(Api::openai_chat, R"({"mod\u0065l":"a"})").model, "a");
  for (const char* unclear :
       {R"({"model":"a","mod\u0065l":"b"})", R"({"model":"a","x":NaN})", R"({"model":"a"} {})",
        R"({"model":"a","temperature":0,"temperature":1})", R"({"model":"a","\ud800":1,"":2})"}) {
    const RequestFacts facts = read_request(Api::openai_chat, unclear);
    EXPECT_FALSE(facts.is_json) << unclear;
    EXPECT_EQ(facts.model, "") << unclear;
    EXPECT_TRUE(facts.params.empty()) << unclear;
  }
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/../chat/completions")), Api::generic);
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/%2E./x")), Api::generic);
  EXPECT_EQ(api_of(head_of("GET", "/v1/models/org/a..b")), Api::openai_models);
}

TEST(Dialect, WhatARequestDependsOnDoesNotDependOnTheOrderOfItsMembers) {
  const auto stateful = [](Api api, const char* body) { return read_request(api, body).stateful; };
  EXPECT_FALSE(stateful(Api::openai_responses, R"({"store":false,"input":"x"})"));
  EXPECT_TRUE(stateful(Api::openai_responses, R"({"input":"x"})"));
  for (const char* body :
       {R"({"previous_response_id":"r","store":false})",
        R"({"store":false,"previous_response_id":"r"})", R"({"conversation":"c","store":false})",
        R"({"background":true,"store":false})"}) {
    EXPECT_TRUE(stateful(Api::openai_responses, body)) << body;
  }
}

TEST(Dialect, StatefulRequestsAreNeverCacheable) {
  const CachePolicy policy;
  const auto cacheable = [&](Api api, const char* body, std::vector<Field> fields = {}) {
    return is_cacheable(policy, head_of("POST", "/", std::move(fields)), api,
                        read_request(api, body));
  };
  EXPECT_TRUE(cacheable(Api::openai_chat, R"({"temperature":0})"));
  EXPECT_FALSE(cacheable(Api::openai_chat, R"({"temperature":0,"store":true})"));
  EXPECT_FALSE(cacheable(Api::openai_responses, R"({"temperature":0})"));
  EXPECT_FALSE(cacheable(Api::generic, R"({"temperature":0})"));
  EXPECT_FALSE(cacheable(Api::openai_chat, "[0]"));
  EXPECT_FALSE(cacheable(Api::openai_chat, R"({"temperature":0})",
                         {{"cache-control", "max-age=1, No-Store"}}));
}

TEST(CacheKey, IsTheSameForTheSameQuestionAndAnotherForAnother) {
  const auto key = [](const char* body, const char* identity = "m", const char* scope = "s") {
    return cache_preimage(head_of("POST", "/v1/chat/completions"), Api::openai_chat, body, identity,
                          scope)
        .value();
  };
  const std::string base = key(R"({"a":1,"b":[2.50,"x"]})");
  EXPECT_EQ(base,
            key(R"({ "b" : [2.50, "\u0078"], "a":1, "stream":true, "user":"u", "metadata":{} })"));
  EXPECT_NE(base, key(R"({"a":1,"b":[2.5,"x"]})"));
  EXPECT_NE(base, key(R"({"a":1,"b":[2.50,"x"],"tools":[]})"));
  EXPECT_NE(base, key(R"({"a":1,"b":[2.50,"x"]})", "ms", ""));
  EXPECT_FALSE(cache_preimage(head_of("POST", "/"), Api::openai_chat, R"({"a":1,"a":2})", "", ""));
  std::string many = R"({"a":[1)";
  for (std::size_t i = 0; i < gateway::kCacheKeyValuesMax; ++i) many += ",1";
  EXPECT_FALSE(cache_preimage(head_of("POST", "/"), Api::openai_chat, many + "]}", "", ""));
}

// ---- headers

TEST(HeaderRules, StripsHopByHopFieldsAndWhatConnectionNames) {
  Fields fields;
  for (const char* name : {"Connection", "X-Hop", "Keep-Alive", "TE", "Trailer",
                           "Transfer-Encoding", "Upgrade", "Proxy-Authorization", "X-Keep"}) {
    fields.add(name, same_word(name, "connection") ? "close, x-hop" : "v");
  }
  strip_hop_by_hop(fields);
  ASSERT_EQ(fields.all().size(), 1u);
  EXPECT_EQ(fields.all()[0].name, "X-Keep");
}

TEST(HeaderRules, HidesSecretsInTheQueryHoweverTheyAreSpelt) {
  EXPECT_EQ(redacted_target("/p?a=1&KEY=x&k%65y=y&access_token=z&api-key=w&monkey=1&b"),
            "/p?a=1&KEY=REDACTED&k%65y=REDACTED&access_token=REDACTED&api-key=REDACTED&monkey="
            "REDACTED&b");
  EXPECT_EQ(redacted_target("/p?subscription-key=x;X-Amz-Signature=y&jwt=z&page=2"),
            "/p?subscription-key=REDACTED;X-Amz-Signature=REDACTED&jwt=REDACTED&page=2");
  EXPECT_EQ(redacted_target("/p?sas=x&SIG=y&signature=z"),
            "/p?sas=REDACTED&SIG=REDACTED&signature=REDACTED");
  EXPECT_EQ(redacted_target("/p"), "/p");
}

TEST(LeafTexts, OnlyNumbersAndWordsOfTheApiStayAmongParameters) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", "0.7"},
           {"seed", "9007199254740993"},
           {"stream", "true"},
           {"n", "null"},
           {"reasoning_effort", "high"},
           {"service_tier", "auto"},
           {"tool_choice", "required"},
           {"response_format", R"({"type": "json_object"})"},
           {"stream_options", R"({"include_usage":true})"}}) {
    EXPECT_TRUE(is_leaf_param(name, value)) << name;
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", "Jane Doe"},
           {"seed", "1 2"},
           {"stop", "12"},
           {"stop", R"(["Jane"])"},
           {"suffix", "7"},
           {"logit_bias", R"({"1":1})"},
           {"reasoning_effort", "Jane"},
           {"reasoning_effort", ""},
           {"tool_choice", ""},
           {"tool_choice", R"({"type":"function","function":{"name":"jane"}})"},
           {"service_tier", "high"},
           {"response_format", "text"},
           {"response_format", R"({"type":"jane"})"},
           {"response_format", R"({"type":"text","name":"jane"})"},
           {"response_format", R"({"type":"json_schema","json_schema":{}})"},
           {"stream_options", R"({"include_usage":"jane"})"},
           {"stream_options", R"({"jane":true})"},
           {"max_tokens", std::string(33, '1')}}) {
    EXPECT_FALSE(is_leaf_param(name, value)) << name << ' ' << value;
  }
}

TEST(LeafTexts, OnlyNumbersAndKnownWordsStayInTheQuery) {
  EXPECT_EQ(leaf_target("/p"), "/p");
  EXPECT_EQ(leaf_target("/p?"), "/p?");
  EXPECT_EQ(leaf_target("/p?api-version=2024-10-21&limit=20&beta=true&key=REDACTED&a="),
            "/p?api-version=2024-10-21&limit=20&beta=true&key=REDACTED&a=");
  EXPECT_EQ(leaf_target("/p?name=Jane+Doe;q=x&alt=sse&n=1"), "/p?name=*;q=*&alt=sse&n=1");
  EXPECT_EQ(leaf_target("/p?Jane&alt=Jane%20Doe&J%20D=1&beta"), "/p?*&alt=*&*=1&beta");
}

TEST(LeafTexts, ATraceparentIsNothingElse) {
  EXPECT_TRUE(is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  for (const char* text :
       {"", "Jane Doe", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        "00-0af7651916cd43dd8448eb211c80319cab7ad6b7169203331-01"}) {
    EXPECT_FALSE(is_traceparent(text)) << text;
  }
}

TEST(HeaderRules, HidesUserNamesAndPasswordsInTargets) {
  EXPECT_EQ(redacted_target("http://u:p@h/x?key=y"), "http://REDACTED@h/x?key=REDACTED");
  EXPECT_EQ(redacted_target("ftp://u@p@h"), "ftp://REDACTED@h");
  EXPECT_EQ(redacted_target("u:p@h:443"), "REDACTED@h:443");
  EXPECT_EQ(redacted_target("http://h/a@b"), "http://h/a@b");
  EXPECT_EQ(redacted_target("/a@b://c@d"), "/a@b://c@d");
  EXPECT_EQ(redacted_target("*"), "*");
}

TEST(HeaderRules, ConnectionTakesAwayWhatItNamesButNotWhatTheBodyIs) {
  Fields fields;
  for (const char* name :
       {"Host", "Content-Length", "content-encoding", "X-Hop", "Authorization"}) {
    fields.add(name, "v");
  }
  fields.add("Connection", "host, content-length");
  fields.add("Connection", "Content-Encoding,x-hop");
  strip_hop_by_hop(fields);
  ASSERT_EQ(fields.all().size(), 4u);
  EXPECT_FALSE(fields.has("x-hop"));
}

TEST(HeaderRules, HidesWhateverLooksLikeACredential) {
  for (const char* name :
       {"Authorization", "Cookie", "ocp-apim-subscription-key", "x-auth-key", "xi-api-key",
        "helicone-auth", "authentication", "apikey", "private-key", "x-access-token"}) {
    EXPECT_TRUE(gateway::is_secret_field(name)) << name;
  }
  for (const char* name :
       {"content-type", "user-agent", "x-ratelimit-remaining-tokens", "anthropic-version"}) {
    EXPECT_FALSE(gateway::is_secret_field(name)) << name;
  }
}

TEST(HeaderRules, FindsTheCredentialInEitherForm) {
  Fields fields;
  fields.add("x-api-key", "k2");
  EXPECT_EQ(credential_of(fields), "k2");
  fields.add("Authorization", "Bearer  k1");
  EXPECT_EQ(credential_of(fields), "k1");
}

TEST(HeaderRules, UrlsInHeadersAreShownWithoutTheirSecrets) {
  Fields fields;
  fields.add("x-goog-upload-url", "https://h/upload?key=AIza-1&upload_id=u");
  fields.add("Referer", "http://h/p?a=1&access_token=s");
  fields.add("Accept", "a?key=b");
  EXPECT_EQ(fields_as_json(fields),
            R"([["x-goog-upload-url","https://h/upload?key=REDACTED&upload_id=u"],)"
            R"(["Referer","http://h/p?a=1&access_token=REDACTED"],["Accept","a?key=b"]])");
}

TEST(HeaderRules, WhatIsReadAsACredentialIsTakenAway) {
  for (const char* list : {"realtime,\topenai-insecure-api-key.k ,x", "openai-insecure-api-key.k",
                           "a, openai-insecure-api-key.k\t, openai-insecure-api-key.l"}) {
    Fields fields;
    fields.add("Sec-WebSocket-Protocol", "first");
    fields.add("Sec-WebSocket-Protocol", list);
    EXPECT_EQ(credential_of(fields), "k") << list;
    remove_credentials(fields);
    EXPECT_EQ(credential_of(fields), "") << list;
    EXPECT_EQ(fields_as_json(fields).find("insecure"), std::string::npos) << list;
    for (const Field& field : fields.all()) {
      EXPECT_EQ(field.value.find("insecure"), std::string::npos) << field.value;
    }
  }
  // Within another word it is no key.
  Fields fields;
  fields.add("Sec-WebSocket-Protocol", "x-openai-insecure-api-key.k");
  EXPECT_EQ(credential_of(fields), "");
}

TEST(HeaderRules, TextForALeafIsUtf8AndBounded) {
  EXPECT_EQ(leaf_text("ab\xC3\xA9", 3), "ab");
  EXPECT_EQ(leaf_text("a\xFF", 10), "a\xEF\xBF\xBD");
}

// ---- answers

TEST(ResponseFacts, ReadsUsageAndReasonsFromStreamsOfBothApis) {
  ResponseFacts anthropic(Api::anthropic_messages);
  anthropic.read_stream(
      "event: message_start\ndata: "
      "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"c\",\"usage\":{"
      "\"input_tokens\":5,\"output_tokens\":1}}}\n\n"
      "event: message_delta\ndata: "
      "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_"
      "tokens\":9}}\n\n"
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  Json leaf = Json::object();
  anthropic.describe(leaf);
  EXPECT_EQ(leaf["usage"],
            Json({{"input_tokens", 5}, {"output_tokens", 9}}));  // cumulative, never added
  EXPECT_EQ(leaf["finish"], Json::array({"end_turn"}));
  EXPECT_EQ(leaf["upstream"]["response_id"], "msg_1");
  EXPECT_TRUE(anthropic.finished());

  ResponseFacts openai(Api::openai_chat);
  openai.read_stream(
      "data: "
      "{\"id\":\"a\",\"usage\":null,\"choices\":[{\"index\":1,\"finish_reason\":\"length\"}]}\n\n"
      "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n: c\n\ndata: "
      "[DONE]\n\n");
  Json second = Json::object();
  openai.describe(second);
  EXPECT_FALSE(second.contains("usage"));  // absent is absent, never 0
  EXPECT_EQ(second["finish"], Json::array({"stop", "length"}));
}

TEST(ResponseFacts, SurvivesAnything) {
  for (const char* body :
       {"", "null", "{\"usage\":7,\"choices\":{},\"id\":[]}", "{\"usage\":{\"prompt_tokens\":-1}}",
        "{\"choices\":[null,{\"finish_reason\":{}}]}"}) {
    ResponseFacts facts(Api::openai_chat);
    facts.read_json(body);
    Json leaf = Json::object();
    facts.describe(leaf);
    EXPECT_FALSE(facts.finished()) << body;
  }
}

/// `window`: 31 for gzip, 15 for zlib.
std::string deflated(std::string_view text, int window = 31, gz_header* header = nullptr) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  if (header != nullptr) deflateSetHeader(&stream, header);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(ContentCoding, ReadsAllMembersAndNothingBehindThem) {
  const std::string two = deflated("one, ") + deflated("two");
  EXPECT_EQ(decode_content("gzip", two, 100).value(), "one, two");
  EXPECT_EQ(decode_content("gzip", two, 6).error().code, Errc::out_of_range);
  std::string frame(100, '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), "one", 3, 1));
  EXPECT_EQ(decode_content("zstd", frame + frame, 100).value(), "oneone");
  for (const auto& [coding, bytes] :
       {std::pair("gzip", two + "tail"), std::pair("gzip", two + two.substr(0, 9)),
        std::pair("deflate", deflated("one", 15) + "tail"),
        std::pair("deflate", deflated("one", 15) + deflated("two", 15)),
        std::pair("zstd", frame + "tail"),
        std::pair("br", std::string("\x0b\x01\x80one\x03tail", 11))}) {
    EXPECT_EQ(decode_content(coding, bytes, 100).error().code, Errc::invalid_input) << coding;
  }
  EXPECT_EQ(decode_content("br", std::string("\x0b\x01\x80one\x03", 7), 100).value(), "one");
}

TEST(ContentCoding, TellsWhatIsSaidBesideTheData) {
  char name[] = "jane@roe.org";
  gz_header header{};
  header.name = reinterpret_cast<Bytef*>(name);
  const std::string named = deflated("text", 31, &header);
  std::string frame(100, '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), "text", 4, 1));
  const std::string skipped = std::string("\x50\x2a\x4d\x18\x04\x00\x00\x00jane", 12);
  for (const auto& [coding, bytes] :
       {std::pair("gzip", named), std::pair("gzip", deflated("") + named),
        std::pair("zstd", skipped + frame), std::pair("zstd", frame + skipped)}) {
    EXPECT_EQ(decode_content(coding, bytes, 100).value(), "text");
    EXPECT_EQ(decode_content(coding, bytes, 100, Beside::refused).error().code,
              Errc::invalid_input);
  }
  EXPECT_EQ(decode_content("gzip", deflated("text"), 100, Beside::refused).value(), "text");
  EXPECT_EQ(decode_content("zstd", frame + frame, 100, Beside::refused).value(), "texttext");
}

TEST(ContentCoding, UndoesWhatOthersDid) {
  const std::string text(5000, 'v');
  const std::string gzip = deflated(text);
  std::string zstd(6000, '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), gzip.data(), gzip.size(), 1));
  std::string br(6000, '\0');
  std::size_t br_size = br.size();
  ASSERT_TRUE(BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, text.size(),
                                    reinterpret_cast<const std::uint8_t*>(text.data()), &br_size,
                                    reinterpret_cast<std::uint8_t*>(br.data())));
  br.resize(br_size);

  EXPECT_EQ(decode_content("gzip", gzip, 10'000).value(), text);
  EXPECT_EQ(decode_content("GZIP, zstd", zstd, 10'000).value(), text);
  EXPECT_EQ(decode_content("br", br, 10'000).value(), text);
  EXPECT_EQ(decode_content("", text, 10'000).value(), text);
  EXPECT_EQ(decode_content("gzip", gzip, 4999).error().code, Errc::out_of_range);
  for (const char* coding : {"gzip", "zstd", "br", "deflate"}) {
    EXPECT_EQ(decode_content(coding, "not so coded", 100).error().code, Errc::invalid_input)
        << coding;
  }
  EXPECT_EQ(decode_content("gzip", std::string_view(gzip).substr(0, 20), 10'000).error().code,
            Errc::invalid_input);
  EXPECT_EQ(decode_content("snappy", "", 100).error().code, Errc::unsupported);
}

TEST(Errors, HaveTheShapeOfTheApiThatWasCalled) {
  const auto openai =
      nlohmann::json::parse(error_body(Dialect::openai, 404, "no \"x\"", "model_not_found", "id"));
  EXPECT_EQ(openai["error"]["message"], "no \"x\"");
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(openai["error"]["param"].is_null());
  const auto anthropic = nlohmann::json::parse(error_body(Dialect::anthropic, 404, "m", "c", "id"));
  EXPECT_EQ(anthropic["type"], "error");
  EXPECT_EQ(anthropic["error"]["type"], "not_found_error");
  EXPECT_EQ(anthropic["request_id"], "id");
  const auto gemini = [](int status) {
    return nlohmann::json::parse(error_body(Dialect::gemini, status, "m", "some_code", "id"));
  };
  EXPECT_EQ(gemini(400), nlohmann::json::parse(R"({"error":{"code":400,"message":"m",
    "status":"INVALID_ARGUMENT","details":[
      {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SOME_CODE","domain":"verbatim"},
      {"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"id"}]}})"));
  for (const auto& [status, name] :
       {std::pair(401, "UNAUTHENTICATED"), std::pair(403, "PERMISSION_DENIED"),
        std::pair(404, "NOT_FOUND"), std::pair(408, "DEADLINE_EXCEEDED"),
        std::pair(413, "INVALID_ARGUMENT"), std::pair(429, "RESOURCE_EXHAUSTED"),
        std::pair(500, "INTERNAL"), std::pair(501, "UNIMPLEMENTED"), std::pair(502, "UNAVAILABLE"),
        std::pair(503, "UNAVAILABLE"), std::pair(504, "DEADLINE_EXCEEDED")}) {
    EXPECT_EQ(gemini(status)["error"]["status"], name);
  }
}

}  // namespace
}  // namespace verbatim::gateway
