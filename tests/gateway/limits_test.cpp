// What is refused, what happens when the log cannot be written, and how both are recorded.

#include "gateway_fixture.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Limits : public GatewayTest {
 protected:
  /// An upstream that answers "{}" for as long as it is asked, and counts.
  void start_with_echo() {
    start_before([this](Wire& wire) {
      while (!read_message(wire).head.empty()) {
        ++asked_;
        wire.send(answer("{}"));
      }
    });
  }
  /// Sends bytes that must be refused; returns the answer.
  Message refused(const std::string& bytes) {
    Wire wire = client();
    wire.send(bytes);
    Message message = read_message(wire);
    EXPECT_EQ(wire.read_all(), "");
    EXPECT_TRUE(wire.ended());
    return message;
  }
  std::atomic<int> asked_ = 0;
};

TEST_F(Limits, RefusesARequestWithBothLengthAndTransferEncoding) {
  start_with_echo();
  const Message got = refused(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(Json::parse(got.body)["error"]["code"], "framing_conflict");
  EXPECT_EQ(response_leaf()["status"], "rejected");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Limits, RefusesALengthThatIsToldTwiceEvenIfTheSame) {
  start_with_echo();
  const Message got = refused(
      "POST /v1/messages HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(Json::parse(got.body)["error"]["type"], "invalid_request_error");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Limits, ATargetThatIsAUrlIsThePathInItAndChoosesNoServer) {
  std::string seen;
  start_before([&](Wire& wire) {
    seen = read_message(wire).head;
    wire.send(answer("{}"));
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("http://elsewhere.example/v1/chat/completions?a=b", "{}"));
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_THAT(seen, StartsWith("POST /v1/chat/completions?a=b HTTP/1.1\r\n"));
  EXPECT_THAT(seen, testing::Not(HasSubstr("elsewhere")));
  const auto request = recorder_.wait_for("request", 1).at(0);
  EXPECT_EQ(request.fields["route"]["target"], "/v1/chat/completions?a=*");
  EXPECT_EQ(FakeRecorder::content(request, "request.target"), "/v1/chat/completions?a=b");
  EXPECT_EQ(request.fields["route"]["api"], "openai.chat");
}

TEST_F(Limits, TargetsThatAreNoPathGoNowhereAndTheirPasswordsNowhereEither) {
  start_with_echo();
  for (const std::string line :
       {"POST http://u:s3cret@elsewhere/v1/x", "POST ftp://elsewhere/v1/x", "POST elsewhere:443",
        "POST u:s3cret@elsewhere:443", "OPTIONS *", "OPTIONS http://elsewhere", "POST *",
        "POST /v1/x#y", "POST http://elsewhere/#s"}) {
    Wire wire = client();
    wire.send(line + " HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}");
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 ")) << line;
    EXPECT_EQ(Json::parse(got.body)["error"]["code"], "bad_target") << line;
    // Its end is known: the connection goes on.
    wire.send(post("/v1/x", "{}"));
    EXPECT_EQ(read_message(wire).body, "{}") << line;
  }
  EXPECT_EQ(asked_, 9);
  for (const auto& leaf : recorder_.wait_for("request", 18)) {
    EXPECT_THAT(leaf.fields.dump(), testing::Not(HasSubstr("s3cret")));
  }
}

TEST_F(Limits, MethodsThatWouldPassUnreadOrEchoAreNotServed) {
  start_with_echo();
  for (const std::string line : {"CONNECT elsewhere:443", "CONNECT /v1/x", "TRACE /v1/x"}) {
    Wire wire = client();
    wire.send(line + " HTTP/1.1\r\nHost: g\r\n\r\n");
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 501 Not Implemented\r\n")) << line;
    EXPECT_EQ(Json::parse(got.body)["error"]["code"], "unsupported_method");
  }
  EXPECT_EQ(recorder_.wait_for("response", 3).size(), 3u);
  EXPECT_EQ(asked_, 0);
}

TEST_F(Limits, NoHeaderMakesAnotherMethodOfARequest) {
  start_with_echo();
  for (const std::string name : {"X-HTTP-Method-Override", "x-http-method", "X-METHOD-OVERRIDE"}) {
    Wire wire = client();
    wire.send("PUT /v1/chat/completions HTTP/1.1\r\nHost: g\r\n" + name +
              ": POST\r\nContent-Length: 2\r\n\r\n{}");
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 ")) << name;
    EXPECT_EQ(Json::parse(got.body)["error"]["code"], "method_override");
  }
  EXPECT_EQ(asked_, 0);
  Wire wire = client();
  wire.send(post("/v1/x", "{}", "X-HTTP-Method-Override: post\r\n"));
  EXPECT_EQ(read_message(wire).body, "{}");
}

TEST_F(Limits, AnEmptyLineBeforeARequestMakesNoRequest) {
  config_.timeouts.client_head = std::chrono::milliseconds(100);
  start_with_echo();
  Wire wire = client();
  wire.send("\r\n" + post("/v1/x", "{}") + "\r\n");
  EXPECT_EQ(read_message(wire).body, "{}");
  // What came behind it is no request that takes too long.
  EXPECT_EQ(wire.read_all(), "");
  EXPECT_TRUE(wire.ended());
  EXPECT_EQ(recorder_.wait_for("response", 1).size(), 1u);
  EXPECT_EQ(recorder_.leaves("request").size(), 1u);
  EXPECT_THAT(refused("\r\n\r\n\r\n\r\n\r\n").head, StartsWith("HTTP/1.1 400 "));
}

TEST_F(Limits, AChunkLineWithoutEndIsRefusedAndRecorded) {
  start_with_echo();
  const Message got =
      refused("POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
              std::string(200'000, 'x'));
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(response_leaf()["status"], "rejected");
}

TEST_F(Limits, WhatConnectionNamesGoesButForWhatFramesTheBody) {
  std::string seen;
  start_before([&](Wire& wire) {
    seen = read_message(wire).head;
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\nX-Hop: 1\r\n"
        "Connection: content-length, Content-Type, x-hop\r\n\r\n{}");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/x", "{}",
                 "X-Hop: 1\r\nX-End: 2\r\nConnection: close, x-hop, Content-Length, "
                 "content-type\r\nConnection: host\r\n"));
  const Message got = read_message(wire);
  EXPECT_EQ(got.body, "{}");
  EXPECT_THAT(got.head, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(got.head, testing::Not(HasSubstr("X-Hop")));
  EXPECT_THAT(got.head, HasSubstr("connection: close\r\n"));
  EXPECT_THAT(seen, HasSubstr("Content-Length: 2\r\n"));
  EXPECT_THAT(seen, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-End: 2\r\n"));
  EXPECT_THAT(seen, testing::Not(HasSubstr("X-Hop")));
  EXPECT_EQ(wire.read_all(), "");
}

TEST_F(Limits, ALongBodyWhoseLengthConnectionNamesIsFramedOnce) {
  config_.limits.stream_above_bytes = 1000;
  const std::string body(3000, 'x');
  Message seen;
  start_before([&](Wire& wire) {
    seen = read_message(wire);
    wire.send(answer("{}"));
    wire.read_all();
  });
  Wire wire = client();
  wire.send(
      "PUT /v1/files HTTP/1.1\r\nHost: g\r\nContent-Length: 3000\r\n"
      "Connection: content-length\r\n\r\n" +
      body.substr(0, 2000));
  wire.read_for(50);  // so much is not waited for any longer
  wire.send(body.substr(2000));
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_THAT(seen.head, HasSubstr("Content-Length: 3000\r\n"));
  EXPECT_THAT(seen.head, testing::Not(HasSubstr("Transfer-Encoding")));
  EXPECT_EQ(seen.body, body);
}

TEST_F(Limits, TheAnswerToHeadHasALengthAndNoBody) {
  start_before([&](Wire& wire) {
    for (int i = 0; !read_message(wire).head.empty(); ++i) {
      wire.send(i == 0 ? "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
                       : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
  });
  Wire wire = client();
  const auto head = [&](const std::string& target) {
    wire.send("HEAD " + target + " HTTP/1.1\r\nHost: g\r\n\r\n");
    return wire.read_until("\r\n\r\n");
  };
  EXPECT_THAT(head("/v1/models"), testing::AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                                                 HasSubstr("Content-Length: 5000\r\n"),
                                                 testing::Not(HasSubstr("transfer-encoding"))));
  EXPECT_THAT(head("/v1/x"),
              testing::AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), testing::Not(HasSubstr("ncoding")),
                             testing::Not(HasSubstr("ength"))));
  // The gateway's own.
  EXPECT_THAT(head("/v1/x#y"),
              testing::AllOf(StartsWith("HTTP/1.1 400 "),
                             testing::ContainsRegex("content-length: [1-9][0-9]*\r\n")));
  EXPECT_THAT(head("/healthz"), testing::AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                                               HasSubstr("content-length: 6\r\n")));
  EXPECT_EQ(wire.read_for(50), "");
  const auto leaves = recorder_.wait_for("response", 3);
  ASSERT_EQ(leaves.size(), 3u);
  EXPECT_EQ(leaves[0].fields["status"], "complete");
  EXPECT_EQ(leaves[1].fields["status"], "complete");
  EXPECT_EQ(upstream_->connections(), 1);
}

TEST_F(Limits, Http10IsKeptAliveOnRequestAndNeverChunked) {
  start_before([&](Wire& wire) {
    while (!read_message(wire).head.empty()) {
      wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") +
                "0\r\n\r\n");
    }
  });
  Wire wire = client();
  wire.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(read_message(wire).head, HasSubstr("connection: keep-alive\r\n"));
  wire.send("GET /v1/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string got = wire.read_all();
  EXPECT_TRUE(wire.ended());
  EXPECT_THAT(got,
              testing::AllOf(testing::EndsWith("\r\n\r\n{}"), HasSubstr("connection: close\r\n"),
                             testing::Not(HasSubstr("chunked"))));
}

TEST_F(Limits, TheHealthOfTheGatewayNeedsNoKeyAndLeavesNoRecord) {
  config_.keys.push_back({});  // nobody has it
  start_with_echo();
  Wire wire = client();
  const auto ask = [&](const std::string& line) {
    wire.send(line + " HTTP/1.1\r\nHost: g\r\n\r\n");
    return read_message(wire);
  };
  EXPECT_EQ(ask("GET /healthz").body, "ready\n");
  EXPECT_EQ(ask("GET http://g/healthz?probe=1").body, "ready\n");
  EXPECT_THAT(ask("DELETE /healthz").head, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask("GET /healthz/").head, StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(recorder_.wait_for("request", 2).size(), 2u);
  recorder_.fail("*");
  const Message failed = ask("GET /healthz");
  EXPECT_THAT(failed.head, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_EQ(failed.body, "the audit log cannot be written\n");
  recorder_.fail("");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Limits, TheHealthOfAGatewayThatDrainsIsBad) {
  start();
  Wire wire = client();
  wire.send("GET /healthz HTTP/1.1\r\n");
  wire.read_for(50);  // begun: no idle connection, which a drain closes
  server_->begin_drain();
  const auto refused = [&] {
    try {
      static_cast<void>(client());
      return false;
    } catch (const boost::system::system_error&) {
      return true;
    }
  };
  while (!refused()) std::this_thread::yield();
  wire.send("Host: g\r\n\r\n");
  const Message got = read_message(wire);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(got.head, HasSubstr("connection: close\r\n"));
  EXPECT_EQ(got.body, "draining\n");
}

TEST_F(Limits, TheHealthPathMayBeLeftToTheUpstream) {
  config_.health_path = "";
  start_with_echo();
  Wire wire = client();
  wire.send("GET /healthz HTTP/1.1\r\nHost: g\r\n\r\n");
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_EQ(asked_, 1);
}

TEST_F(Limits, ClientsMustAskByAKnownNameWhereNamesAreConfigured) {
  config_.hosts = {"verbatim.example"};
  start_with_echo();
  const auto ask = [&](const std::string& target, const std::string& host) {
    Wire wire = client();
    wire.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return read_message(wire).head;
  };
  for (const std::string good : {"verbatim.example:8080", "127.0.0.1", "[::1]:1"}) {
    EXPECT_THAT(ask("/v1/x", good), StartsWith("HTTP/1.1 200 ")) << good;
  }
  EXPECT_THAT(ask("http://verbatim.example/v1/x", "evil.example"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/v1/x", "evil.example"), StartsWith("HTTP/1.1 421 Misdirected Request\r\n"));
  EXPECT_THAT(ask("http://evil.example/v1/x", "verbatim.example"), StartsWith("HTTP/1.1 421 "));
  EXPECT_EQ(asked_, 4);
  EXPECT_EQ(recorder_.wait_for("response", 6).back().fields["error"]["kind"], "wrong_host");
}

TEST_F(Limits, AHeadThatComesTooSlowlyIsRefusedThoughItNeverStalls) {
  config_.timeouts.client_head = std::chrono::milliseconds(150);
  start_with_echo();
  Wire wire = client();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 && !wire.ended(); ++i) {
    if (!wire.send(i == 0 ? "GET /v1/x HTTP/1.1\r\n" : "X: y\r\n")) break;
    if (!wire.read_for(20).empty()) break;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(1500));
  EXPECT_EQ(response_leaf()["error"]["kind"], "request_timeout");
}

TEST_F(Limits, RefusesUnknownTransferCodingsAndGarbage) {
  start_with_echo();
  EXPECT_THAT(
      refused("POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").head,
      StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(refused("\x16\x03\x01\x02\r\n\r\n").head, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(refused("GET /v1/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").head,
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").head, StartsWith("HTTP/1.1 505 "));
  EXPECT_EQ(recorder_.wait_for("response", 4).size(), 4u);
}

TEST_F(Limits, RefusesAndRecordsBodiesAndHeadsThatAreTooLarge) {
  config_.limits.body_bytes_max = 100;
  start_with_echo();
  const std::string large(101, 'x');
  const Message by_length = refused(post("/v1/chat/completions", large));
  EXPECT_THAT(by_length.head, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(by_length.head, HasSubstr("x-verbatim-record: "));
  const Message by_chunks = refused(
      "POST /v1/messages HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(large));
  EXPECT_EQ(Json::parse(by_chunks.body)["error"]["type"], "request_too_large");
  const Message by_head =
      refused("GET /v1/models HTTP/1.1\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n");
  EXPECT_THAT(by_head.head, StartsWith("HTTP/1.1 431 "));
  for (const auto& leaf : recorder_.wait_for("response", 3))
    EXPECT_EQ(leaf.fields["status"], "rejected");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Limits, ReadsChunkedBodiesAndForwardsThemWithALength) {
  std::string seen_head, seen_body;
  start_before([&](Wire& wire) {
    const Message request = read_message(wire);
    seen_head = request.head;
    seen_body = request.body;
    wire.send(answer("{}"));
    wire.read_all();
  });
  Wire wire = client();
  wire.send("POST /v1/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" +
            chunk("{\"a\"") + chunk(":1}") + "0\r\n\r\n");
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_THAT(seen_head, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_EQ(seen_body, "{\"a\":1}");
}

TEST_F(Limits, TellsAClientThatWaitsToContinue) {
  start_with_echo();
  Wire wire = client();
  wire.send("POST /v1/x HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(wire.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.send("{}");
  EXPECT_EQ(read_message(wire).body, "{}");
}

TEST_F(Limits, ARequestThatStallsIsRefusedAndRecorded) {
  config_.timeouts.client_body = std::chrono::milliseconds(60);
  start_with_echo();
  Wire wire = client();
  wire.send("POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(response_leaf()["error"]["kind"], "request_timeout");
}

TEST_F(Limits, RejectionsBeyondTheRateShareOneLeaf) {
  config_.limits.rejections_per_s = 2;
  start();  // no upstream, no model: nothing can be served
  Wire wire = client();
  std::string last_record;
  for (int i = 0; i < 10; ++i) {
    wire.send(post("/v1/messages", "{}"));
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 404 "));
    last_record = got.head.substr(got.head.find("x-verbatim-record: ") + 19, 36);
    EXPECT_THAT(got.body, HasSubstr(last_record));
  }
  const auto shared = recorder_.wait_for("rejections", 1);
  ASSERT_EQ(shared.size(), 1u);
  const std::size_t own = recorder_.leaves("response").size();
  EXPECT_LE(own, 3u);
  EXPECT_EQ(shared[0].fields["count"].get<std::size_t>() + own, 10u);
  EXPECT_EQ(shared[0].id->str(), last_record);
}

TEST_F(Limits, FailsClosedWhenTheRequestCannotBeRecorded) {
  start_with_echo();
  recorder_.fail("request");
  Wire wire = client();
  wire.send(post("/v1/messages", "{}"));
  const Message got = read_message(wire);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(got.head, HasSubstr("retry-after: "));
  EXPECT_EQ(Json::parse(got.body)["error"]["type"], "api_error");
  EXPECT_EQ(asked_, 0);
  recorder_.fail("");
  wire.send(post("/v1/messages", "{}"));
  EXPECT_EQ(read_message(wire).body, "{}");
}

TEST_F(Limits, FailsClosedWhenTheAnswerCannotBeRecorded) {
  start_with_echo();
  recorder_.fail("response");
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 503 "));
}

TEST_F(Limits, AStreamWhoseEndCannotBeRecordedGetsNoEnd) {
  recorder_.fail("response");
  start_before([&](Wire& wire) {
    read_message(wire);
    wire.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("data: 1\n\n"));
    wire.read_for(50);
    wire.send(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
    wire.read_all();
  });
  Wire wire = client();
  wire.send(post("/v1/chat/completions", R"({"stream":true})"));
  EXPECT_THAT(wire.read_all(), testing::Not(HasSubstr("[DONE]")));
}

TEST_F(Limits, FailsOpenIfConfiguredAndAccountsForTheGap) {
  config_.on_log_failure = gateway::OnLogFailure::fail_open;
  start_with_echo();
  recorder_.fail("*");
  Wire wire = client();
  for (int i = 0; i < 3; ++i) {
    wire.send(post("/v1/chat/completions", "{}"));
    EXPECT_EQ(read_message(wire).body, "{}");
  }
  recorder_.fail("");
  const auto gaps = recorder_.wait_for("gap", 1);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].fields["count"], 3);
  EXPECT_EQ(gaps[0].fields["reason"], "the disk is full");
}

TEST_F(Limits, TheAdminListenerTellsHealthAndMetrics) {
  config_.admin_token = "t0ken";
  start_with_echo();
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  read_message(wire);
  Wire operator_wire = admin();
  const auto get = [&](const std::string& path, const std::string& fields = "") {
    operator_wire.send("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fields + "\r\n");
    return read_message(operator_wire);
  };
  EXPECT_EQ(get("/healthz").body, "ok\n");
  EXPECT_EQ(get("/readyz").body, "ready\n");
  EXPECT_THAT(get("/metrics").head, StartsWith("HTTP/1.1 401 "));
  const Message metrics = get("/metrics", "Authorization: Bearer t0ken\r\n");
  EXPECT_THAT(
      metrics.body,
      HasSubstr(
          R"(verbatim_requests_total{api="openai.chat",status="complete",cache="bypass"} 1)"));
  EXPECT_THAT(metrics.body, HasSubstr("verbatim_log_healthy 1"));
  recorder_.fail("*");
  EXPECT_THAT(get("/readyz").head, StartsWith("HTTP/1.1 503 "));
}

TEST_F(Limits, TheAdminListenerAnswersToItsNamesAlone) {
  config_.admin_hosts = {"metrics.example"};
  start();
  const auto ask = [&](const std::string& fields) {
    Wire wire = admin();
    wire.send("GET /metrics HTTP/1.1\r\n" + fields + "\r\n");
    return read_message(wire);
  };
  for (const std::string host : {"127.0.0.1:9090", "10.0.0.7:9090", "localhost:9090",
                                 "metrics.example:9090", "metrics.example."}) {
    EXPECT_THAT(ask("Host: " + host + "\r\n").head, StartsWith("HTTP/1.1 200 ")) << host;
  }
  const Message rebound = ask("Host: evil.example:9090\r\n");
  EXPECT_THAT(rebound.head, StartsWith("HTTP/1.1 421 Misdirected Request\r\n"));
  EXPECT_THAT(rebound.body,
              testing::AllOf(HasSubstr("evil.example"), HasSubstr("gateway.admin_hosts")));
  EXPECT_THAT(ask("Host: localhost:1\r\nOrigin: https://evil.example\r\n").head,
              StartsWith("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(ask("Host: localhost:1\r\nOrigin: http://localhost:1\r\n").head,
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(Limits, TheAdminListenerWaitsForNoRequestLongerThanForAnother) {
  config_.timeouts.client_head = std::chrono::milliseconds(150);
  start();
  Wire wire = admin();
  wire.send("GET / HTTP/1.1\r\n");
  std::string got;
  for (int i = 0; i < 400 && got.empty() && !wire.ended(); ++i) {
    if (!wire.send("X: y\r\n")) break;
    got = wire.read_for(10);
  }
  EXPECT_THAT(got, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  Wire silent = admin();
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.ended());
}

TEST_F(Limits, TheAdminListenerSaysWhatIsWrongWithARequest) {
  start();
  const auto ask = [&](const std::string& bytes) {
    Wire wire = admin();
    wire.send(bytes);
    Message got = read_message(wire);
    EXPECT_EQ(wire.read_all(), "");
    EXPECT_TRUE(wire.ended());
    EXPECT_FALSE(wire.was_reset());
    return got;
  };
  const Message broken = ask("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(broken.head, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(broken.head, HasSubstr("connection: close\r\n"));
  EXPECT_EQ(broken.body, "the request is not valid HTTP/1.1\n");
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n").head,
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123456789").head,
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").head,
              StartsWith("HTTP/1.1 505 HTTP Version Not Supported\r\n"));
  Wire wire = admin();
  wire.send("BREW /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  const Message brewed = read_message(wire);
  EXPECT_THAT(brewed.head, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(brewed.head, HasSubstr("allow: GET, HEAD\r\n"));
  wire.send("HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_THAT(wire.read_until("\r\n\r\n"), HasSubstr("content-length: 3\r\n"));
  EXPECT_EQ(wire.read_for(50), "");
}

TEST_F(Limits, AnAddressInUseIsAnErrorThatNamesIt) {
  start();
  gateway::GatewayConfig second;
  second.listen = server_->address();
  const auto failed = gateway::BoundAddresses::take(second);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::unavailable);
  EXPECT_EQ(failed.error().where, "listen = " + second.listen.str());
}

}  // namespace
}  // namespace verbatim::test
