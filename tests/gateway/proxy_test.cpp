// The gateway before a remote upstream, as both see it from their sockets.

#include "gateway_fixture.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Proxy : public GatewayTest {};

constexpr const char* kCompletion =
    R"({"id":"cmpl-1","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}})";

TEST_F(Proxy, PassesRequestAndAnswerByteForByte) {
  // Odd spacing, an escape, a number beyond 2^53 and an unknown member: all must arrive as they
  // are.
  const std::string question =
      "{ \"model\":\"m-1\",\n\"seed\": 9007199254740993, \"x\":\"\\u00e9\",\"messages\":[ ] }";
  std::string seen_head, seen_body;
  start_before([&](Wire& wire) {
    const Message request = read_message(wire);
    seen_head = request.head;
    seen_body = request.body;
    wire.send(
        "HTTP/1.1 200 Fine\r\nX-Request-Id: up-1\r\ncontent-TYPE: application/json\r\n"
        "Content-Length: " +
        std::to_string(std::strlen(kCompletion)) + "\r\nX-Verbatim-Record: forged\r\n\r\n" +
        kCompletion);
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions?api_key=s3cret&x=1", question,
                 "aUthorization: Bearer sk-1\r\nOpenAI-Organization: o\r\nTE: trailers\r\n"));
  const Message got = read_message(wire);
  EXPECT_EQ(seen_head, "POST /v1/chat/completions?api_key=s3cret&x=1 HTTP/1.1\r\nHost: 127.0.0.1:" +
                           std::to_string(upstream_->port()) +
                           "\r\naUthorization: Bearer sk-1\r\nOpenAI-Organization: o\r\n"
                           "Content-Type: application/json\r\nContent-Length: " +
                           std::to_string(question.size()) + "\r\n\r\n");
  EXPECT_EQ(seen_body, question);
  EXPECT_EQ(got.body, kCompletion);
  EXPECT_THAT(got.head,
              testing::StartsWith(
                  "HTTP/1.1 200 Fine\r\nX-Request-Id: up-1\r\ncontent-TYPE: application/json\r\n"));
  EXPECT_THAT(got.head, Not(HasSubstr("forged")));

  const auto request = recorder_.wait_for("request", 1).at(0);
  const auto response = recorder_.wait_for("response", 1).at(0);
  EXPECT_THAT(got.head, HasSubstr("x-verbatim-record: " + request.id->str()));
  EXPECT_THAT(got.head, HasSubstr("x-verbatim-cache: miss"));
  EXPECT_EQ(FakeRecorder::content(request, "request.body"), question);
  EXPECT_EQ(FakeRecorder::content(response, "response.body"), kCompletion);
  EXPECT_EQ(request.fields["params"]["seed"], "9007199254740993");
  EXPECT_EQ(request.fields["determinism"], "seeded");
  EXPECT_EQ(request.fields["route"]["target"], "/v1/chat/completions?api_key=REDACTED&x=1");
  EXPECT_EQ(response.fields["status"], "complete");
  EXPECT_EQ(response.fields["http_status"], 200);
  EXPECT_EQ(response.fields["upstream"]["request_id"], "up-1");
  EXPECT_EQ(response.fields["upstream"]["model"], "m-1");
  EXPECT_EQ(response.fields["usage"]["input_tokens"], 3);
  EXPECT_EQ(response.fields["finish"], Json::array({"stop"}));
}

TEST_F(Proxy, KeepsCredentialsOutOfTheRecord) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(answer("{}"));
    wire.read_all();
  });
  Wire wire = client();
  wire.send(
      post("/v1/chat/completions?key=sk-query", "{}",
           "Authorization: Bearer sk-header\r\nx-api-key: sk-other\r\nCookie: sk-cookie\r\n"));
  read_message(wire);
  const auto leaf = recorder_.wait_for("request", 1).at(0);
  const std::string all = leaf.fields.dump() + FakeRecorder::content(leaf, "request.headers");
  EXPECT_THAT(all, Not(HasSubstr("sk-")));
  EXPECT_THAT(all, HasSubstr(R"(["Authorization","REDACTED"])"));
  EXPECT_EQ(leaf.fields["subject"], sha256(std::string_view("sk-header")).hex());
}

TEST_F(Proxy, KeepsBothConnectionsAliveAndAnswersPipelinedRequestsInOrder) {
  int count = 0;
  start_before([&](Wire& wire) {
    while (!read_message(wire).head.empty())
      wire.send(answer("{\"n\":" + std::to_string(++count) + "}"));
  });
  Wire wire = client();
  wire.send(post("/v1/embeddings", "{}") + post("/v1/embeddings", "{}") +
            post("/v1/embeddings", "{}"));
  EXPECT_EQ(read_message(wire).body, "{\"n\":1}");
  EXPECT_EQ(read_message(wire).body, "{\"n\":2}");
  EXPECT_EQ(read_message(wire).body, "{\"n\":3}");
  EXPECT_EQ(upstream_->connections(), 1);
}

TEST_F(Proxy, HoldsTheLastPieceUntilTheResponseLeafIsDurable) {
  recorder_.hold("response");
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(answer(kCompletion));
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_EQ(wire.read_for(150), "");
  EXPECT_TRUE(recorder_.has_queued("response"));
  recorder_.release();
  EXPECT_EQ(read_message(wire).body, kCompletion);
}

TEST_F(Proxy, ForwardsNothingBeforeTheRequestLeafIsDurable) {
  recorder_.hold("request");
  std::atomic<bool> asked = false;
  start_before([&](Wire& wire) {
    read_message(wire);
    asked = true;
    wire.send(answer("{}"));
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_EQ(wire.read_for(150), "");
  EXPECT_FALSE(asked);
  recorder_.release();
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_TRUE(asked);
}

TEST_F(Proxy, OverlapForwardsAtOnceButHoldsTheAnswer) {
  config_.mode = audit::DurabilityMode::overlap;
  recorder_.hold("request");
  std::atomic<bool> asked = false;
  start_before([&](Wire& wire) {
    read_message(wire);
    asked = true;
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n"));
    wire.read_for(300);
    wire.send(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", R"({"stream":true})"));
  EXPECT_EQ(wire.read_for(150), "");
  EXPECT_TRUE(asked);
  recorder_.release();
  EXPECT_THAT(read_message(wire).body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(Proxy, SendsEventsAtOnceAndWithholdsTheTerminalOne) {
  recorder_.hold("response");
  const std::string first =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\xC3\xA9\"}}]}\r\n\r\n";
  const std::string last =
      ": note\n\ndata: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n";
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    wire.send(chunk(first.substr(0, 52)));
    wire.read_for(30);
    wire.send(chunk(first.substr(52)));
    wire.read_for(30);
    wire.send(chunk(last + "data: [DO") + chunk("NE]\n\n") + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", R"({"stream":true,"model":"m"})"));
  EXPECT_THAT(wire.read_until("\r\n\r\n"), HasSubstr("x-accel-buffering: no"));
  const std::string early = wire.read_for(300);
  EXPECT_THAT(early, HasSubstr("finish_reason"));
  EXPECT_THAT(early, Not(HasSubstr("DO")));
  recorder_.release();
  EXPECT_EQ(wire.read_until("0\r\n\r\n"), chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  const auto leaf = recorder_.wait_for("response", 1).at(0);
  EXPECT_EQ(FakeRecorder::content(leaf, "response.body"), first + last + "data: [DONE]\n\n");
  EXPECT_EQ(leaf.fields["stream"]["events"], 3);
  const Json events = Json::parse(FakeRecorder::content(leaf, "response.events"));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0][0], 0);
  EXPECT_LT(events[0][1], events[2][1]);
}

TEST_F(Proxy, ACutAnswerIsNeverGivenACleanEnd) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("data: {\"choices\":[]}\n\n"));
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", R"({"stream":true})"));
  const std::string all = wire.read_all();
  EXPECT_THAT(all, HasSubstr("data: {\"choices\":[]}"));
  EXPECT_THAT(all, Not(testing::EndsWith("0\r\n\r\n")));
  EXPECT_TRUE(wire.ended());
  EXPECT_EQ(response_leaf()["status"], "upstream_truncated");
}

TEST_F(Proxy, AStreamThatEndsForHttpButNotForItsProtocolIsCutToo) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("event: message_start\ndata: {\"type\":\"message_start\"}\n\n"));
    wire.read_for(50);
    wire.send("0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/messages", R"({"stream":true})"));
  EXPECT_THAT(wire.read_all(), Not(testing::EndsWith("0\r\n\r\n")));
  const Json leaf = response_leaf();
  EXPECT_EQ(leaf["status"], "upstream_truncated");
  EXPECT_EQ(leaf["error"]["kind"], "no_terminal_event");
}

TEST_F(Proxy, ACutAnswerOfWhichNothingIsOutBecomesAnErrorAndIsKeptInTheRecord) {
  const std::string part = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n";
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk(part) + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/messages", R"({"stream":true})"));
  const Message got = read_message(wire);
  EXPECT_THAT(got.head, testing::StartsWith("HTTP/1.1 502 "));
  const auto leaf = recorder_.wait_for("response", 1).at(0);
  EXPECT_EQ(leaf.fields["status"], "upstream_truncated");
  EXPECT_EQ(FakeRecorder::content(leaf, "response.body"), got.body);
  EXPECT_EQ(FakeRecorder::content(leaf, "upstream.body"), part);
}

TEST_F(Proxy, AnErrorEventIsPassedThroughAndEndsTheStreamProperly) {
  const std::string body =
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk(body) + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/messages", R"({"stream":true})"));
  EXPECT_EQ(read_message(wire).body, body);
  EXPECT_EQ(response_leaf()["status"], "upstream_error");
  EXPECT_EQ(response_leaf()["error"]["kind"], "error_event");
}

TEST_F(Proxy, ABodyThatEndsWithItsConnectionIsPassedInChunks) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it");
  });
  Wire wire = client();
  wire.send(post("/v1/anything", "{}"));
  const Message got = read_message(wire);
  EXPECT_EQ(got.body, "all of it");
  EXPECT_EQ(response_leaf()["status"], "complete");
}

TEST_F(Proxy, CancelsTheUpstreamAtOnceWhenTheClientLeaves) {
  std::atomic<bool> upstream_saw_end = false;
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("data: 1\n\n"));
    wire.read_all();
    upstream_saw_end = wire.ended();
  });
  {
    Wire wire = client();
    wire.send(post("/v1/chat/completions", R"({"stream":true})"));
    wire.read_until("data: 1\n\n");
  }
  const Json leaf = response_leaf();
  EXPECT_EQ(leaf["status"], "client_disconnect");
  EXPECT_EQ(FakeRecorder::content(recorder_.leaves("response").at(0), "response.body"),
            "data: 1\n\n");
  stop();
  EXPECT_TRUE(upstream_saw_end);
}

TEST_F(Proxy, AClientWhoLeavesBeforeAnyAnswerIsRecordedAs499) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.read_all();
  });
  {
    Wire wire = client();
    wire.send(post("/v1/chat/completions", "{}"));
    recorder_.wait_for("request", 1);
    wire.read_for(50);
  }
  const Json leaf = response_leaf();
  EXPECT_EQ(leaf["status"], "client_disconnect");
  EXPECT_EQ(leaf["http_status"], 499);
}

TEST_F(Proxy, AnswersInTheShapeOfTheApiWhenTheUpstreamIsDown) {
  add_upstream("mock", "http://127.0.0.1:1");
  start();
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  const Message openai = read_message(wire);
  EXPECT_THAT(openai.head, testing::StartsWith("HTTP/1.1 502 Bad Gateway\r\n"));
  EXPECT_EQ(Json::parse(openai.body)["error"]["code"], "connect");
  wire.send(post("/v1/messages", "{}"));
  const Json anthropic = Json::parse(read_message(wire).body);
  EXPECT_EQ(anthropic["type"], "error");
  EXPECT_EQ(anthropic["error"]["type"], "api_error");
  EXPECT_EQ(anthropic["request_id"], recorder_.leaves("request").at(1).id->str());
  EXPECT_EQ(response_leaf(2)["status"], "upstream_error");
  wire.send(post("/v1beta/models/m:generateContent", "{}"));
  const Json gemini = Json::parse(read_message(wire).body)["error"];
  EXPECT_EQ(gemini["code"], 502);
  EXPECT_EQ(gemini["status"], "UNAVAILABLE");
  EXPECT_EQ(gemini["details"][1]["requestId"], recorder_.leaves("request").at(2).id->str());
}

TEST_F(Proxy, HoldsTheEndOfAGoogleStreamUntilTheResponseLeafIsDurable) {
  recorder_.hold("response");
  const std::string first =
      "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"h\"}]}}]}\r\n\r\n";
  const std::string last = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\r\n\r\n";
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk(first));
    wire.read_for(30);
    wire.send(chunk(last) + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1beta/models/m:streamGenerateContent?alt=sse", "{}"));
  wire.read_until("\r\n\r\n");
  const std::string early = wire.read_for(300);
  EXPECT_THAT(early, HasSubstr("\"text\":\"h\""));
  EXPECT_THAT(early, Not(HasSubstr("0\r\n\r\n")));
  recorder_.release();
  EXPECT_THAT(wire.read_until("0\r\n\r\n"), testing::EndsWith("0\r\n\r\n"));
  EXPECT_EQ(response_leaf()["status"], "complete");
}

TEST_F(Proxy, PassesUpstreamErrorsThroughWithTheirHeaders) {
  const std::string body = R"({"error":{"message":"slow","type":"rate_limit_error"}})";
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nx-should-retry: "
        "false\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  const Message got = read_message(wire);
  EXPECT_THAT(got.head,
              HasSubstr("429 Too Many Requests\r\nretry-after: 7\r\nx-should-retry: false\r\n"));
  EXPECT_EQ(got.body, body);
  EXPECT_EQ(response_leaf()["http_status"], 429);
  EXPECT_EQ(response_leaf()["status"], "upstream_error");
}

TEST_F(Proxy, RetriesOnceWhenAPooledConnectionHadDied) {
  std::atomic<int> served = 0;
  start_before([&](Wire& wire) {
    read_message(wire);
    ++served;
    wire.send(answer("{}"));  // and closes, though it had promised to stay
  });
  Wire wire = client();
  for (int i = 0; i < 5; ++i) {
    wire.send(post("/v1/chat/completions", "{}"));
    EXPECT_EQ(read_message(wire).body, "{}") << i;
  }
  EXPECT_EQ(served, 5);
}

TEST_F(Proxy, DoesNotRetryOnceAFreshConnectionWasUsed) {
  std::atomic<int> asked = 0;
  start_before([&](Wire& wire) {
    read_message(wire);
    ++asked;
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_THAT(read_message(wire).head, HasSubstr("502"));
  EXPECT_EQ(asked, 1);
}

TEST_F(Proxy, TimesOutAnUpstreamThatNeverAnswersAndOneThatStalls) {
  config_.timeouts.first_byte = std::chrono::milliseconds(60);
  config_.timeouts.idle = std::chrono::milliseconds(60);
  std::atomic<int> count = 0;
  start_before([&](Wire& wire) {
    read_message(wire);
    if (++count == 2) {
      wire.send(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
          "chunked\r\n\r\n" +
          chunk("data: 1\n\n"));
    }
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_THAT(read_message(wire).head, HasSubstr("504 Gateway Timeout"));
  EXPECT_EQ(response_leaf(1)["status"], "timeout");
  wire.send(post("/v1/chat/completions", R"({"stream":true})"));
  EXPECT_THAT(wire.read_all(), Not(testing::EndsWith("0\r\n\r\n")));
  EXPECT_EQ(response_leaf(2)["error"]["kind"], "idle_timeout");
}

TEST_F(Proxy, ReadsPastInterimResponsesAndAnswersHeadWithoutABody) {
  start_before([&](Wire& wire) {
    while (true) {
      const Message request = read_message(wire);
      if (request.head.empty()) return;
      wire.send(
          "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
          "5\r\n\r\n");
      if (!request.head.starts_with("HEAD")) wire.send("hello");
    }
  });
  Wire wire = client();
  wire.send("HEAD /v1/files/1 HTTP/1.1\r\nHost: g\r\n\r\n");
  EXPECT_THAT(wire.read_until("\r\n\r\n"), HasSubstr("Content-Length: 5"));
  wire.send("GET /v1/files/1 HTTP/1.1\r\nHost: g\r\n\r\n");
  EXPECT_EQ(read_message(wire).body, "hello");
}

TEST_F(Proxy, SpeaksToHttp10ClientsWithoutChunks) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("abc") + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send("GET /v1/files/1 HTTP/1.0\r\n\r\n");
  const std::string all = wire.read_all();
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
  EXPECT_THAT(all, testing::EndsWith("\r\n\r\nabc"));
}

TEST_F(Proxy, ADrainLetsExchangesEndAndClosesIdleConnections) {
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.read_for(200);
    wire.send(answer("{\"late\":1}"));
    wire.read_all();
  });
  Wire idle = client();
  Wire busy = client();
  busy.send(post("/v1/chat/completions", "{}"));
  recorder_.wait_for("request", 1);
  server_->begin_drain();
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(read_message(busy).body, "{\"late\":1}");
  thread_.join();
  EXPECT_EQ(response_leaf()["status"], "complete");
}

}  // namespace
}  // namespace verbatim::test
