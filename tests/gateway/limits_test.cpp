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

TEST_F(Limits, AClientCannotChooseTheServerByAnAbsoluteTarget) {
  start();
  Wire wire = client();
  wire.send(
      "POST http://u:pw@elsewhere/v1/chat/completions HTTP/1.1\r\nHost: g\r\n"
      "Content-Length: 2\r\n\r\n{}");
  const Message got = read_message(wire);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(response_leaf()["status"], "rejected");
  EXPECT_EQ(asked_, 0);
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
  EXPECT_EQ(recorder_.wait_for("response", 3).size(), 3u);
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
    wire.send(post("/v1/chat/completions", "{}"));
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 404 "));
    last_record = got.head.substr(got.head.find("x-verbatim-record: ") + 19, 36);
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
    operator_wire.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n");
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
