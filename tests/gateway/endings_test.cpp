// Ends that are easily lost: failures inside the gateway, clients who send no more, a drain that takes too long, and
// requests that hold up a thread.

#include "gateway/net.hpp"
#include "gateway_fixture.hpp"

#include <future>

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Endings : public GatewayTest {
 protected:
  static std::string stream_head() {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
           "chunked\r\n\r\n";
  }
  void start_with_echo() {
    start_before([](Wire& wire) {
      while (!read_message(wire).head.empty()) wire.send(answer("{}"));
    });
  }
};

TEST(Mailbox, WhatWaitsWhenItClosesIsDropped) {
  gateway::net::io_context io;
  const auto mailbox = std::make_shared<gateway::Mailbox>(io);
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watched = held;
  mailbox->post([mailbox, held] {});  // a ring, if nothing breaks it
  held.reset();
  EXPECT_FALSE(watched.expired());
  mailbox->close();
  EXPECT_TRUE(watched.expired());
}

// ---- exceptions

TEST_F(Endings, AnExceptionBeforeTheAnswerIsAnErrorForTheClientAndAClosedRecord) {
  start_with_echo();
  recorder_.throw_in("cache_key");
  Wire wire = client();
  wire.send(post("/v1/messages", R"({"temperature":0})"));
  const Message got = read_message(wire);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(Json::parse(got.body)["error"]["type"], "api_error");
  EXPECT_THAT(got.body, testing::Not(HasSubstr("told to throw")));
  const Json leaf = response_leaf();
  EXPECT_EQ(leaf["status"], "gateway_error");
  EXPECT_EQ(leaf["error"]["kind"], "internal_error");
  EXPECT_EQ(leaf["http_status"], 500);
  // The connection, and the gateway, go on.
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_EQ(read_message(wire).body, "{}");
  EXPECT_EQ(recorder_.wait_for("response", 2).size(), recorder_.leaves("request").size());
}

TEST_F(Endings, AnExceptionBeforeTheRecordBeginsIsRecordedToo) {
  start_with_echo();
  recorder_.throw_in("request");
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(response_leaf()["status"], "gateway_error");
  EXPECT_EQ(recorder_.leaves("request").size(), 1u);
}

TEST_F(Endings, AnExceptionInTheMiddleOfAStreamCutsItAndClosesTheRecord) {
  start_before([](Wire& wire) {
    read_message(wire);
    wire.send(stream_head() + chunk("data: 1\n\n"));
    wire.read_for(50);
    wire.send(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
    wire.read_all();
  });
  recorder_.throw_in("response");
  Wire wire = client();
  wire.send(post("/v1/chat/completions", R"({"stream":true})"));
  EXPECT_THAT(wire.read_all(), testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(response_leaf()["status"], "gateway_error");
}

TEST_F(Endings, AnExceptionWhileARequestIsRejectedIsRecordedToo) {
  start();  // nothing to serve with
  recorder_.throw_in("response");
  Wire wire = client();
  wire.send(post("/v1/chat/completions", "{}"));
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(response_leaf()["status"], "gateway_error");
}

// ---- clients who send no more

TEST_F(Endings, AClientThatSendsNoMoreStillGetsItsWholeAnswer) {
  start_before([](Wire& wire) {
    while (true) {
      const Message request = read_message(wire);
      if (request.head.empty()) return;
      wire.read_for(100);  // the client's end is seen long before the answer
      if (request.body.find("stream") == std::string::npos) {
        wire.send(answer("{\"late\":1}"));
      } else {
        wire.send(stream_head() +
                  chunk("data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\n"));
        wire.read_for(50);
        wire.send(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
      }
    }
  });
  for (const char* body : {"{}", R"({"stream":true})"}) {
    Wire wire = client();
    wire.send(post("/v1/chat/completions", body));
    wire.half_close();
    const Message got = read_message(wire);
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: ")) << body;
    EXPECT_THAT(got.body, testing::AnyOf("{\"late\":1}", testing::EndsWith("data: [DONE]\n\n")));
    EXPECT_EQ(wire.read_all(), "");
    EXPECT_FALSE(wire.was_reset());
  }
  for (const auto& leaf : recorder_.wait_for("response", 2)) {
    EXPECT_EQ(leaf.fields["status"], "complete");
  }
}

TEST_F(Endings, AHalfClosedClientGetsErrorsAndPipelinedAnswersToo) {
  add_upstream("mock", "http://127.0.0.1:1");
  start();
  Wire wire = client();
  wire.send(post("/v1/embeddings", "{}") + post("/v1/chat/completions", "{}"));
  wire.half_close();
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 502 Bad Gateway\r\n"));
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 502 Bad Gateway\r\n"));
  EXPECT_EQ(wire.read_all(), "");
}

// ---- a drain

TEST_F(Endings, ADrainAtTheMomentOfATickEndsTheGateway) {
  start();
  // The gateway's thread is kept beyond its next tick, which so has expired when the drain cancels it.
  recorder_.stall("config", std::chrono::milliseconds(1500));
  server_->reload(config_);
  recorder_.wait_for_stall();
  server_->begin_drain();
  auto ended = std::async(std::launch::async, [this] { thread_.join(); });
  ASSERT_EQ(ended.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// ---- a drain that takes too long

TEST_F(Endings, WhatADrainCutsOffIsRecordedAsCutOffByTheGateway) {
  config_.timeouts.drain = std::chrono::milliseconds(100);
  start_before([](Wire& wire) {
    const Message request = read_message(wire);
    if (request.body.find("stream") != std::string::npos)
      wire.send(stream_head() + chunk("data: 1\n\n"));
    wire.read_all();
  });
  Wire streaming = client();
  streaming.send(post("/v1/chat/completions", R"({"stream":true})"));
  streaming.read_until("data: 1\n\n");
  Wire waiting = client();
  waiting.send(post("/v1/chat/completions", "{}"));
  recorder_.wait_for("request", 2);
  server_->begin_drain();
  const Message got = read_message(waiting);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(Json::parse(got.body)["error"]["code"], "shutting_down");
  EXPECT_EQ(streaming.read_all(), "\r\n");  // the end of its chunk, and no end of the body
  thread_.join();
  const auto leaves = recorder_.leaves("response");
  ASSERT_EQ(leaves.size(), 2u);
  for (const auto& leaf : leaves) {
    EXPECT_EQ(leaf.fields["status"], "gateway_error");
    EXPECT_EQ(leaf.fields["error"]["kind"], "shutting_down");
  }
}

// ---- the local engine

/// The demo model, with a tokenizer that can be held up and counts.
class WatchedTokenizer final : public local_engine::Tokenizer {
 public:
  explicit WatchedTokenizer(std::shared_ptr<const Tokenizer> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Result<std::vector<local_engine::TokenId>> encode(
      std::string_view text, const local_engine::EncodeOptions& options) const override {
    ++calls;
    if (text.size() > 8192) {
      entered.set_value();
      gate.wait();
      return Error{Errc::invalid_input, "held up for long enough", "", ""};
    }
    return inner_->encode(text, options);
  }
  [[nodiscard]] std::string decode(const std::vector<local_engine::TokenId>& ids,
                                   bool skip) const override {
    return inner_->decode(ids, skip);
  }
  [[nodiscard]] std::optional<std::size_t> text_bytes_per_token_max() const override {
    return bound;
  }
  [[nodiscard]] std::size_t vocab_size() const override { return inner_->vocab_size(); }
  [[nodiscard]] std::optional<local_engine::TokenId> bos() const override { return inner_->bos(); }
  [[nodiscard]] std::optional<local_engine::TokenId> eos() const override { return inner_->eos(); }
  [[nodiscard]] std::string token_text(local_engine::TokenId id) const override {
    return inner_->token_text(id);
  }
  [[nodiscard]] std::optional<local_engine::TokenId> token_id(
      std::string_view text) const override {
    return inner_->token_id(text);
  }
  [[nodiscard]] bool is_special(local_engine::TokenId id) const override {
    return inner_->is_special(id);
  }
  [[nodiscard]] Digest sha256() const override { return inner_->sha256(); }

  std::optional<std::size_t> bound;
  mutable std::atomic<int> calls = 0;
  mutable std::promise<void> entered;
  mutable std::promise<void> opened;
  std::shared_future<void> gate = opened.get_future().share();

 private:
  std::shared_ptr<const Tokenizer> inner_;
};

class WatchedEngine final : public local_engine::Engine {
 public:
  WatchedEngine(std::shared_ptr<Engine> inner, std::shared_ptr<const WatchedTokenizer> tokenizer)
      : inner_(std::move(inner)), tokenizer_(std::move(tokenizer)) {}
  std::shared_ptr<local_engine::Generation> generate(
      local_engine::GenerationRequest request,
      std::function<void(const local_engine::TokenInfo&)> on_token,
      std::function<void(Result<local_engine::GenerationResult>)> done) override {
    return inner_->generate(std::move(request), std::move(on_token), std::move(done));
  }
  [[nodiscard]] Result<local_engine::GenerationResult> score(
      const local_engine::GenerationRequest& request,
      const std::vector<local_engine::TokenId>& output_ids) override {
    return inner_->score(request, output_ids);
  }
  [[nodiscard]] const local_engine::Fingerprint& fingerprint() const override {
    return inner_->fingerprint();
  }
  [[nodiscard]] std::shared_ptr<const local_engine::Tokenizer> tokenizer() const override {
    return tokenizer_;
  }
  [[nodiscard]] std::shared_ptr<const local_engine::ChatTemplate> chat_template() const override {
    return inner_->chat_template();
  }
  [[nodiscard]] std::string backend() const override { return inner_->backend(); }
  [[nodiscard]] std::string profile() const override { return inner_->profile(); }
  [[nodiscard]] std::size_t context_max() const override { return inner_->context_max(); }
  [[nodiscard]] std::size_t vocab_size() const override { return inner_->vocab_size(); }
  [[nodiscard]] std::size_t hidden_size() const override { return inner_->hidden_size(); }
  [[nodiscard]] const std::vector<local_engine::TokenId>& eos_ids() const override {
    return inner_->eos_ids();
  }

 private:
  std::shared_ptr<Engine> inner_;
  std::shared_ptr<const WatchedTokenizer> tokenizer_;
};

class LocalEndings : public Endings {
 protected:
  static void SetUpTestSuite() {
    local_engine::EngineOptions options;
    options.threads = 1;
    demo_ = local_engine::Engine::load(
                std::string(VERBATIM_SOURCE_DIR) + "/local_engine/demo/model", options)
                .value();
  }
  static void TearDownTestSuite() { demo_.reset(); }
  void start_watched() {
    tokenizer_ = std::make_shared<WatchedTokenizer>(demo_->tokenizer());
    start({{"demo", "demo", std::make_shared<WatchedEngine>(demo_, tokenizer_)}});
  }
  static std::string chat(const std::string& content) {
    return R"({"model":"demo","max_tokens":2,"messages":[{"role":"user","content":")" + content +
           R"("}]})";
  }
  Message ask(const std::string& body) {
    Wire wire = client();
    wire.send(post("/v1/chat/completions", body));
    return read_message(wire);
  }

  static inline std::shared_ptr<local_engine::Engine> demo_;
  std::shared_ptr<WatchedTokenizer> tokenizer_;
};

TEST_F(LocalEndings, APromptOfMegabytesHoldsUpNobodyElse) {
  start_watched();
  Wire slow = client();
  slow.send(post("/v1/chat/completions", chat(std::string(4u << 20, 'x'))));
  tokenizer_->entered.get_future().wait();
  // It is being tokenised, and will be until we say so; meanwhile:
  EXPECT_THAT(ask(chat("Hello")).head, StartsWith("HTTP/1.1 200 OK"));
  tokenizer_->opened.set_value();
  const Message got = read_message(slow);
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(got.body, HasSubstr("held up for long enough"));
}

TEST_F(LocalEndings, AClientWhoLeavesWhileItsPromptIsReadIsRecordedAtOnce) {
  start_watched();
  {
    Wire slow = client();
    slow.send(post("/v1/chat/completions", chat(std::string(20'000, 'x'))));
    tokenizer_->entered.get_future().wait();
  }
  EXPECT_EQ(response_leaf()["status"], "client_disconnect");
  tokenizer_->opened.set_value();
}

TEST_F(LocalEndings, APromptThatCannotFitIsRefusedBeforeItIsTokenised) {
  start_watched();
  tokenizer_->bound = demo_->tokenizer()->text_bytes_per_token_max();
  ASSERT_TRUE(tokenizer_->bound);
  const Message got = ask(chat(std::string((demo_->context_max() + 2) * *tokenizer_->bound, 'x')));
  EXPECT_THAT(got.head, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(got.body, HasSubstr("longer than the model's context of 512 tokens"));
  EXPECT_EQ(tokenizer_->calls, 0);
}

TEST_F(LocalEndings, RefusalsOfTheEngineBeyondTheRateShareOneLeafToo) {
  config_.limits.rejections_per_s = 2;
  start_watched();
  Wire wire = client();
  for (int i = 0; i < 12; ++i) {
    // Of every kind: at sight, by the body, by the name.
    wire.send(post("/v1/chat/completions", i % 3 == 0   ? "{nonsense"
                                           : i % 3 == 1 ? R"({"model":"demo","messages":[]})"
                                                        : R"({"model":"other"})"));
    EXPECT_THAT(read_message(wire).head,
                StartsWith(i % 3 == 2 ? "HTTP/1.1 404 " : "HTTP/1.1 400 "));
  }
  const auto shared = recorder_.wait_for("rejections", 1);
  ASSERT_EQ(shared.size(), 1u);
  const std::size_t own = recorder_.leaves("response").size();
  EXPECT_LE(own, 4u);
  EXPECT_EQ(recorder_.leaves("request").size(), own);
  EXPECT_EQ(shared[0].fields["count"].get<std::size_t>() + own, 12u);
  // Who asks well is served and recorded all the while.
  wire.send(post("/v1/chat/completions", chat("Hello")));
  EXPECT_THAT(read_message(wire).head, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(recorder_.wait_for("response", own + 1).back().fields["status"], "complete");
}

TEST_F(LocalEndings, TheBoundOnTokensHoldsForTheDemoModel) {
  const auto bound = demo_->tokenizer()->text_bytes_per_token_max();
  ASSERT_TRUE(bound);
  for (const std::string& text :
       {std::string(100'000, ' '), std::string(100'000, 'e'), std::string(50'000, '\xE9'),
        std::string(1000, '\n') + "<|im_start|><|im_end|>"}) {
    const auto ids = demo_->tokenizer()->encode(text, {false, true});
    ASSERT_TRUE(ids);
    EXPECT_GE(ids->size(), text.size() / *bound);
  }
}

}  // namespace
}  // namespace verbatim::test
