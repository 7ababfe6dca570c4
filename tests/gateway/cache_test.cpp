// Canonical outputs: what is stored, what a hit is, and what several askers at once cost.

#include "gateway/cache.hpp"

#include "gateway/canonical_output.hpp"
#include "gateway_fixture.hpp"

namespace verbatim::test {
namespace {

using gateway::Api;
using testing::HasSubstr;

constexpr const char* kWhole =
    R"({"id":"c-1","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"Hi there"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})";
constexpr const char* kStream =
    "data: "
    "{\"id\":\"c-2\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_"
    "reason\":null}]}\n\n"
    "data: "
    "{\"id\":\"c-2\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \"},\"finish_reason\":null}]}\n\n"
    "data: "
    "{\"id\":\"c-2\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"there\"},\"finish_reason\":\"stop\"}]}\n\n"
    "data: [DONE]\n\n";

class Cache : public GatewayTest {
 protected:
  /// Answers greedily: kWhole, or kStream if the request says stream.
  void start_with_model() {
    start_before([this](Wire& wire) {
      for (;;) {
        const Message request = read_message(wire);
        if (request.head.empty()) return;
        ++asked_;
        if (delay_ms_ > 0) wire.read_for(delay_ms_);
        if (fail_next_.exchange(false)) {
          wire.send("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
        } else if (request.body.find("\"stream\":true") != std::string::npos) {
          wire.send(answer(kStream, "text/event-stream"));
        } else {
          wire.send(answer(kWhole));
        }
      }
    });
  }
  Message ask(const std::string& body, const std::string& fields = "") {
    Wire wire = client();
    wire.send(post("/v1/chat/completions", body, fields));
    return read_message(wire);
  }
  std::atomic<int> asked_ = 0;
  std::atomic<int> delay_ms_ = 0;
  std::atomic<bool> fail_next_ = false;
};

TEST_F(Cache, AGreedyRepeatIsServedFromTheRecordWithTheStoredBytes) {
  start_with_model();
  const Message first = ask(R"({"model":"m","temperature":0,"messages":[]})");
  // Another order of members, other blanks and another user: the same question.
  const Message second = ask(R"({"messages":[], "user":"u", "temperature":0,"model":"m"})");
  EXPECT_THAT(first.head, HasSubstr("x-verbatim-cache: miss"));
  EXPECT_THAT(second.head, HasSubstr("x-verbatim-cache: hit"));
  EXPECT_EQ(second.body, kWhole);
  EXPECT_EQ(asked_, 1);
  const auto responses = recorder_.wait_for("response", 2);
  EXPECT_EQ(recorder_.leaves("request").size(), 2u);
  EXPECT_EQ(responses[1].fields["status"], "cache_hit");
  EXPECT_EQ(responses[1].fields["cache"], "hit");
  EXPECT_EQ(responses[1].fields["origin"], responses[0].id->str());
  EXPECT_NE(*responses[1].id, *responses[0].id);
}

TEST_F(Cache, AHitIsGivenAsTheStreamThatWasAskedFor) {
  start_with_model();
  ask(R"({"model":"m","temperature":0})");
  const Message got =
      ask(R"({"model":"m","temperature":0,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_THAT(got.head, HasSubstr("x-verbatim-cache: hit"));
  EXPECT_THAT(got.head, HasSubstr("content-type: text/event-stream"));
  EXPECT_THAT(got.body, HasSubstr(R"("delta":{"content":"Hi there"})"));
  EXPECT_THAT(got.body, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3)"));
  EXPECT_THAT(got.body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(Cache, AStreamIsGivenWholeToWhoAsksForThat) {
  start_with_model();
  const Message stream = ask(R"({"model":"m","temperature":0,"stream":true})");
  EXPECT_EQ(stream.body, kStream);
  const Message whole = ask(R"({"model":"m","temperature":0})");
  EXPECT_THAT(whole.head, HasSubstr("x-verbatim-cache: hit"));
  const Json json = Json::parse(whole.body);
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Hi there");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(ask(R"({"model":"m","temperature":0,"stream":true})").body, kStream);
  EXPECT_EQ(asked_, 1);
}

TEST_F(Cache, SampledRequestsAreNeitherStoredNorServed) {
  start_with_model();
  EXPECT_THAT(ask(R"({"model":"m"})").head, HasSubstr("x-verbatim-cache: bypass"));
  EXPECT_THAT(ask(R"({"model":"m"})").head, HasSubstr("x-verbatim-cache: bypass"));
  EXPECT_EQ(asked_, 2);
}

TEST_F(Cache, TheClientCanPassByTheCacheButNotTheLog) {
  start_with_model();
  ask(R"({"model":"m","seed":1})");
  const Message got = ask(R"({"model":"m","seed":1})", "Cache-Control: no-cache\r\n");
  EXPECT_THAT(got.head, HasSubstr("x-verbatim-cache: bypass"));
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(recorder_.wait_for("response", 2).size(), 2u);
}

TEST_F(Cache, NumbersThatDifferBeyondTheDoublesAreDifferentQuestions) {
  start_with_model();
  ask(R"({"model":"m","seed":9007199254740993})");
  EXPECT_THAT(ask(R"({"model":"m","seed":9007199254740992})").head, HasSubstr("miss"));
}

TEST_F(Cache, CallersOfARemoteServerDoNotShareAnswers) {
  start_with_model();
  ask(R"({"model":"m","seed":1})", "Authorization: Bearer a\r\n");
  EXPECT_THAT(ask(R"({"model":"m","seed":1})", "Authorization: Bearer b\r\n").head,
              HasSubstr("miss"));
  EXPECT_THAT(ask(R"({"model":"m","seed":1})", "Authorization: Bearer b\r\n").head,
              HasSubstr("hit"));
}

TEST_F(Cache, NoHeaderThatCouldCarryACredentialOrChooseAnAccountIsOverlooked) {
  start_with_model();
  const std::pair<const char*, const char*> callers[] = {
      {"Cookie: s=a\r\n", "Cookie: s=b\r\n"},
      {"Ocp-Apim-Subscription-Key: a\r\n", "Ocp-Apim-Subscription-Key: b\r\n"},
      {"Authorization: Bearer d\r\nx-api-key: a\r\n",
       "Authorization: Bearer d\r\nx-api-key: b\r\n"},
      {"openai-organization: a\r\n", "openai-organization: b\r\n"},
      {"anthropic-beta: a\r\n", "anthropic-beta: a\r\nanthropic-beta: b\r\n"},
      {"X-Whatever: a\r\n", ""}};
  int seed = 10;
  for (const auto& [one, other] : callers) {
    const std::string body = R"({"model":"m","seed":)" + std::to_string(++seed) + "}";
    EXPECT_THAT(ask(body, one).head, HasSubstr("miss")) << one;
    EXPECT_THAT(ask(body, other).head, HasSubstr("miss")) << other;
    EXPECT_THAT(ask(body, one).head, HasSubstr("hit")) << one;
  }
  Wire wire = client();
  wire.send(post("/v1/chat/completions?key=a", R"({"model":"m","seed":30})"));
  EXPECT_THAT(read_message(wire).head, HasSubstr("miss"));
  wire.send(post("/v1/chat/completions?key=b", R"({"model":"m","seed":30})"));
  EXPECT_THAT(read_message(wire).head, HasSubstr("miss"));
}

TEST_F(Cache, ErrorsAreNotStored) {
  start_with_model();
  fail_next_ = true;
  EXPECT_THAT(ask(R"({"model":"m","seed":1})").head, HasSubstr("500 No"));
  EXPECT_THAT(ask(R"({"model":"m","seed":1})").head, HasSubstr("x-verbatim-cache: miss"));
}

TEST_F(Cache, ConcurrentMissesAreAskedOnceAndEachHasItsRecord) {
  start_with_model();
  delay_ms_ = 150;
  std::vector<std::thread> askers;
  std::atomic<int> hits = 0;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      const Message got = ask(R"({"model":"m","temperature":0})");
      EXPECT_EQ(got.body, kWhole);
      if (got.head.find("x-verbatim-cache: hit") != std::string::npos) ++hits;
    });
  }
  for (auto& asker : askers) asker.join();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(hits, 7);
  EXPECT_EQ(recorder_.wait_for("response", 8).size(), 8u);
}

TEST_F(Cache, WhenTheLeaderFailsTheWaitersAskForThemselves) {
  start_with_model();
  delay_ms_ = 150;
  fail_next_ = true;
  std::vector<std::thread> askers;
  std::atomic<int> good = 0;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      if (ask(R"({"model":"m","temperature":0})").body == kWhole) ++good;
    });
  }
  for (auto& asker : askers) asker.join();
  EXPECT_EQ(good, 2);
}

TEST(CanonicalOutput, ToolCallsAndChoicesSurviveTheWayThroughAStream) {
  const std::string whole =
      R"({"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"},{"index":1,"message":{"role":"assistant","content":"two"},"logprobs":null,"finish_reason":"stop"}],"usage":{"total_tokens":1}})";
  const auto stream = gateway::openai_stream_of(Api::openai_chat, whole, true);
  ASSERT_TRUE(stream);
  const Json back = Json::parse(gateway::openai_whole_of(Api::openai_chat, *stream).value());
  const Json want = Json::parse(whole);
  EXPECT_EQ(back["choices"][0]["message"]["tool_calls"],
            want["choices"][0]["message"]["tool_calls"]);
  EXPECT_EQ(back["choices"][1]["message"]["content"], "two");
  EXPECT_EQ(back["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(back["usage"], want["usage"]);
}

TEST(CanonicalOutput, AnAnthropicMessageSurvivesTheWayThroughAStream) {
  const std::string whole =
      R"({"id":"msg","type":"message","role":"assistant","model":"c","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"x":[1,2]}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":9}})";
  const auto stream = gateway::anthropic_stream_of(whole);
  ASSERT_TRUE(stream);
  EXPECT_THAT(*stream, testing::StartsWith("event: message_start\ndata: {"));
  EXPECT_THAT(*stream,
              testing::EndsWith("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  EXPECT_EQ(Json::parse(gateway::anthropic_whole_of(*stream).value()), Json::parse(whole));
}

TEST(CanonicalOutput, APlaceThatIsNoneIsRefused) {
  for (const std::string place :
       {"-1", "1.5", "1e300", "-1e300", "1025", "18446744073709551615", "\"0\"", "null", "[]"}) {
    const std::string choice = "{\"index\":" + place;
    const std::string start = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n";
    EXPECT_FALSE(gateway::openai_whole_of(Api::openai_chat,
                                          "data: {\"choices\":[" + choice + ",\"delta\":{}}]}\n\n"))
        << place;
    EXPECT_FALSE(gateway::openai_whole_of(
        Api::openai_chat,
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[" + choice + "}]}}]}\n\n"))
        << place;
    EXPECT_FALSE(
        gateway::openai_stream_of(Api::openai_chat, "{\"choices\":[" + choice + "}]}", true))
        << place;
    EXPECT_FALSE(gateway::anthropic_whole_of(
        start + "data: {\"type\":\"content_block_start\",\"index\":" + place + "}\n\n"))
        << place;
  }
}

TEST(CanonicalOutput, NoAnswerCostsMoreThanInProportionToItsLength) {
  // A whole answer whose stream would repeat a long head ten thousand times.
  Json message = Json::object();
  for (int i = 0; i < 10'000; ++i) message["m" + std::to_string(i)] = i;
  const Json whole = {{"id", std::string(20'000, 'x')}, {"choices", {{{"message", message}}}}};
  EXPECT_FALSE(gateway::openai_stream_of(Api::openai_chat, whole.dump(), false));
  // Members of which each is looked for among all.
  const auto event = [](const Json& json) { return "data: " + json.dump() + "\n\n"; };
  EXPECT_FALSE(gateway::openai_whole_of(
      Api::openai_chat, event({{"choices", {{{"index", 0}, {"delta", message}}}}})));
  EXPECT_FALSE(
      gateway::anthropic_whole_of(event({{"type", "message_start"}, {"message", Json::object()}}) +
                                  event({{"type", "message_delta"}, {"delta", message}})));
  // A call within a call is no list of calls: each step would make a thousand of them.
  const std::string nested =
      R"({"choices":[{"delta":{"tool_calls":[{"index":1,"tool_calls":[{"index":1024}]}]}}]})";
  const Json joined =
      Json::parse(gateway::openai_whole_of(Api::openai_chat, "data: " + nested + "\n\n").value());
  EXPECT_EQ(joined["choices"][0]["message"]["tool_calls"][1]["tool_calls"].size(), 1u);
}

TEST(CanonicalOutput, AHostileRecordIsAnErrorNotACrash) {
  for (const char* body :
       {"", "[]", "{\"choices\":7}", "{\"choices\":[7]}", "{\"choices\":[{\"message\":[]}]}",
        "{\"type\":\"message\",\"content\":{\"a\":1}}"}) {
    static_cast<void>(gateway::openai_stream_of(Api::openai_chat, body, true));
    static_cast<void>(gateway::anthropic_stream_of(body));
    const std::string event = std::string("data: ") + body + "\n\n";
    static_cast<void>(gateway::openai_whole_of(Api::openai_chat, event));
    EXPECT_FALSE(gateway::anthropic_whole_of(event).has_value() && body[0] == '[') << body;
  }
}

}  // namespace
}  // namespace verbatim::test
