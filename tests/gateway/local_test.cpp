// The demo model behind all three APIs.

#include "gateway/local_answer.hpp"
#include "gateway_fixture.hpp"
#include "schema/digest.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Local : public GatewayTest {
 protected:
  static void SetUpTestSuite() {
    local_engine::EngineOptions options;
    options.threads = 1;
    engine_ = local_engine::Engine::load(
                  std::string(VERBATIM_SOURCE_DIR) + "/local_engine/demo/model", options)
                  .value();
  }
  static void TearDownTestSuite() { engine_.reset(); }

  void start_local() { start({{"demo", "/somewhere/demo", engine_}}); }

  Message ask(const std::string& target, const std::string& body, const std::string& fields = "") {
    Wire wire = client();
    wire.send(post(target, body, fields));
    return read_message(wire);
  }
  static std::string chat(const std::string& more) {
    return R"({"model":"demo","messages":[{"role":"user","content":"What is a Merkle tree?"}],"max_tokens":12)" +
           more + "}";
  }
  static std::vector<Json> events(const std::string& body) {
    std::vector<Json> out;
    std::size_t at = 0;
    while ((at = body.find("data: ", at)) != std::string::npos) {
      const std::size_t end = body.find("\n\n", at);
      const std::string data = body.substr(at + 6, end - at - 6);
      if (data != "[DONE]") out.push_back(Json::parse(data));
      at = end;
    }
    return out;
  }

  static inline std::shared_ptr<local_engine::Engine> engine_;
};

TEST_F(Local, AnswersChatWholeAndRecordsAllThatAReplayNeeds) {
  start_local();
  const Message got =
      ask("/v1/chat/completions", chat(R"(,"temperature":0,"logprobs":true,"top_logprobs":2)"));
  ASSERT_THAT(got.head, StartsWith("HTTP/1.1 200 OK\r\n")) << got.body;
  const Json body = Json::parse(got.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "demo");
  EXPECT_THAT(body["system_fingerprint"].get<std::string>(), StartsWith("fp_"));
  const std::size_t tokens = body["usage"]["completion_tokens"];
  EXPECT_GT(tokens, 0u);
  EXPECT_EQ(body["usage"]["total_tokens"],
            body["usage"]["prompt_tokens"].get<std::size_t>() + tokens);
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 2u);

  const auto leaf = recorder_.wait_for("response", 1).at(0);
  EXPECT_EQ(leaf.fields["engine"]["numerics_profile"], "f32-k256/1");
  EXPECT_EQ(leaf.fields["engine"]["weights_sha256"], engine_->fingerprint().weights_sha256.hex());
  EXPECT_EQ(leaf.fields["engine"]["choices"][0]["tokens"], tokens);
  const Json content = Json::parse(FakeRecorder::content(leaf, "response.tokens"));
  const Json& choice = content["choices"][0];
  EXPECT_EQ(choice["output_ids"].size(), tokens);
  EXPECT_EQ(choice["row_digest8"].size(), tokens);
  EXPECT_EQ(choice["sampling"]["temperature"], "0");
  EXPECT_EQ(choice["prompt_ids"].size(), body["usage"]["prompt_tokens"]);
  const auto request = recorder_.leaves("request").at(0);
  EXPECT_EQ(request.fields["model"]["level"], "measured");
  EXPECT_EQ(request.fields["route"]["upstream"], "local");
  EXPECT_EQ(request.fields["environment"], 0);

  // The recorded ids, scored again, give the recorded digest.
  local_engine::GenerationRequest replay;
  for (const Json& id : choice["prompt_ids"]) replay.prompt_ids.push_back(id);
  const auto scored =
      engine_->score(replay, choice["output_ids"].get<std::vector<local_engine::TokenId>>());
  ASSERT_TRUE(scored);
  EXPECT_EQ(scored->logits_digest.hex(), choice["logits_digest"]);
  // Once the contents are erased, nothing in the leaf confirms a guess of them.
  EXPECT_EQ(leaf.fields.dump().find(scored->logits_digest.hex()), std::string::npos);
}

TEST_F(Local, TheSameResultsAreTheSameBytesInEveryBuild) {
  // Whoever changes what is hashed here raises kAnswerFormat: records keep the number that they were written under.
  std::string all;
  for (const auto& [api, ask] :
       {std::pair(gateway::Api::openai_chat,
                  R"("messages":[{"role":"user","content":"Who are you?"}])"),
        std::pair(gateway::Api::openai_completions, R"("prompt":"The log")"),
        std::pair(gateway::Api::anthropic_messages,
                  R"("messages":[{"role":"user","content":"Who?"}])")}) {
    const auto question = gateway::read_local_request(
        api,
        R"({"model":"demo","max_tokens":9,"temperature":0,"stream":true,)"
        R"("stream_options":{"include_usage":true},)" +
            std::string(ask) + "}",
        *engine_, 0, 7);
    ASSERT_TRUE(question);
    std::vector<gateway::LocalChoice> choices(1);
    auto& result = choices[0].result;
    for (const char* text : {"\"A\" ", "\xC3\xA9\xE2\x80\xA8", "</b>\n\t\x01"}) {
      local_engine::TokenInfo token;
      token.text = text;
      result.text += text;
      result.tokens.push_back(token);
    }
    result.prompt_tokens = 5;
    result.finish = local_engine::FinishReason::length;
    choices[0].done = true;
    const gateway::LocalAnswer written(api, *question, *engine_, "id", 1'700'000'000'000'000, "fp");
    all += written.whole(choices) + written.begin();
    for (const auto& token : result.tokens) all += written.piece(0, token.text, &token);
    choices[0].given = result.text.size();
    all += written.finish(0, choices[0]) + written.end(choices);
  }
  EXPECT_EQ(std::to_string(gateway::kAnswerFormat) + " " + sha256(all).hex(),
            "1 adbc05c409f60ee7dcf29027b8d92ad27384fa73607d28dbb78437e15b3299f0")
      << all;
}

TEST_F(Local, TheRecordNamesEveryBackendThatComputed) {
  const auto backend = [](const std::vector<std::vector<std::string>>& of_choices) {
    std::vector<gateway::LocalChoice> choices(of_choices.size());
    for (std::size_t i = 0; i < choices.size(); ++i) choices[i].result.backends = of_choices[i];
    return gateway::describe_engine(*engine_, choices)["backend"].get<std::string>();
  };
  EXPECT_EQ(backend({{"cuda"}, {"cuda"}}), "cuda");
  EXPECT_EQ(backend({{"cuda", "avx2"}, {"avx2"}}), "cuda,avx2");  // moved on its way
  EXPECT_EQ(backend({{}}), engine_->backend()) << "nothing was computed";
}

TEST_F(Local, AStreamSaysTheSameAsTheWholeAnswer) {
  config_.cache = {false, false, false, false, std::chrono::seconds(0), 0};
  start_local();
  const Json whole = Json::parse(ask("/v1/chat/completions", chat(R"(,"temperature":0)")).body);
  const Message stream =
      ask("/v1/chat/completions",
          chat(R"(,"temperature":0,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_THAT(stream.head, HasSubstr("content-type: text/event-stream"));
  EXPECT_THAT(stream.body, testing::EndsWith("data: [DONE]\n\n"));
  const auto chunks = events(stream.body);
  std::string text;
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], chunks[0]["id"]);
    if (!chunk["choices"].empty()) text += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(chunks.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_TRUE(chunks.front()["usage"].is_null());
  EXPECT_EQ(chunks.back()["usage"], whole["usage"]);
  EXPECT_EQ(chunks[chunks.size() - 2]["choices"][0]["finish_reason"],
            whole["choices"][0]["finish_reason"]);
}

TEST_F(Local, ASeedGivesTheSameAnswerAgainAndAMissingOneIsToldAndRecorded) {
  config_.cache = {false, false, false, false, std::chrono::seconds(0), 0};
  start_local();
  const auto text = [&](const std::string& more) {
    const Message got = ask("/v1/chat/completions", chat(more));
    return std::pair(got.head, Json::parse(got.body)["choices"].dump());
  };
  EXPECT_EQ(text(R"(,"temperature":1.5,"seed":7,"n":2)").second,
            text(R"(,"temperature":1.5,"seed":7,"n":2)").second);
  const auto [head, first] = text(R"(,"temperature":1.5)");
  const std::size_t at = head.find("x-verbatim-seed: ");
  ASSERT_NE(at, std::string::npos) << head;
  const std::string seed = head.substr(at + 17, head.find("\r\n", at) - at - 17);
  EXPECT_EQ(text(R"(,"temperature":1.5,"seed":)" + seed).second, first);
  const Json content = Json::parse(
      FakeRecorder::content(recorder_.wait_for("response", 3).at(2), "response.tokens"));
  EXPECT_EQ(content["choices"][0]["sampling"]["seed"], seed);
}

TEST_F(Local, AnswersCompletionsOfTextAndOfIds) {
  start_local();
  const Json text = Json::parse(
      ask("/v1/completions",
          R"({"model":"demo","prompt":"A log","max_tokens":3,"temperature":0,"echo":true})")
          .body);
  EXPECT_EQ(text["object"], "text_completion");
  EXPECT_THAT(text["choices"][0]["text"].get<std::string>(), StartsWith("A log"));
  const Json ids = Json::parse(
      ask("/v1/completions",
          R"({"model":"demo","prompt":[[5,6],[7]],"max_tokens":2,"temperature":0,"n":2,"logprobs":1})")
          .body);
  EXPECT_EQ(ids["choices"].size(), 4u);
  EXPECT_EQ(ids["usage"]["prompt_tokens"], 3);
  EXPECT_FALSE(ids["choices"][0]["logprobs"]["token_logprobs"].empty());
}

TEST_F(Local, AnswersAnthropicMessagesWholeAndStreamed) {
  start_local();
  const std::string question =
      R"({"model":"demo","max_tokens":8,"temperature":0,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}])";
  const Json whole = Json::parse(ask("/v1/messages", question + "}").body);
  EXPECT_EQ(whole["type"], "message") << whole;
  EXPECT_GT(whole["usage"]["output_tokens"], 0);
  const Message stream =
      ask("/v1/messages", question + R"(,"stream":true})", "Cache-Control: no-cache\r\n");
  EXPECT_THAT(stream.body, StartsWith("event: message_start\n"));
  EXPECT_THAT(stream.body,
              testing::EndsWith("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  std::string text;
  for (const Json& event : events(stream.body)) {
    if (event["type"] == "content_block_delta") text += event["delta"]["text"].get<std::string>();
    if (event["type"] != "message_delta") continue;
    EXPECT_EQ(event["delta"]["stop_reason"], whole["stop_reason"]);
  }
  EXPECT_EQ(text, whole["content"][0]["text"]);
}

TEST_F(Local, ListsItsModelsInBothShapes) {
  start_local();
  const auto get = [&](const std::string& target, const std::string& fields = "") {
    Wire wire = client();
    wire.send("GET " + target + " HTTP/1.1\r\nHost: g\r\n" + fields + "\r\n");
    return read_message(wire);
  };
  EXPECT_EQ(Json::parse(get("/v1/models").body)["data"][0]["id"], "demo");
  EXPECT_EQ(Json::parse(get("/v1/models/demo").body)["object"], "model");
  EXPECT_THAT(get("/v1/models/other").head, StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(Json::parse(get("/v1/models", "anthropic-version: 2023-06-01\r\n").body)["has_more"],
            false);
}

TEST_F(Local, TellsTheHeadOfItsListAlone) {
  start_local();
  Wire wire = client();
  const auto ask_for = [&](const std::string& method, const std::string& target) {
    wire.send(method + " " + target + " HTTP/1.1\r\nHost: g\r\n\r\n");
    return wire.read_until("\r\n\r\n");
  };
  for (const std::string target : {"/v1/models", "/v1/models/demo", "/v1/models/other"}) {
    const std::string head = ask_for("HEAD", target);
    const std::string whole = ask_for("GET", target);
    // The same but for the record's id.
    const auto without_id = [](std::string text) {
      return text.erase(text.find("x-verbatim-record: ") + 19, 36);
    };
    EXPECT_EQ(without_id(head), without_id(whole));
    const std::size_t length = std::stoul(whole.substr(whole.find("content-length: ") + 16));
    EXPECT_TRUE(Json::accept(wire.read_bytes(length))) << target;
  }
  const auto leaves = recorder_.wait_for("response", 6);
  ASSERT_EQ(leaves.size(), 6u);
  EXPECT_EQ(leaves[0].fields["status"], leaves[1].fields["status"]);
  EXPECT_EQ(FakeRecorder::content(leaves[0], "response.body"), "");
  EXPECT_NE(FakeRecorder::content(leaves[1], "response.body"), "");
}

TEST_F(Local, RefusesByNameWhatItDoesNotDo) {
  start_local();
  const auto refusal = [&](const std::string& target, const std::string& body) {
    const Message got = ask(target, body);
    return got.head.substr(9, 3) + " " +
           Json::parse(got.body)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(refusal("/v1/chat/completions", "{nonsense"),
            "400 the body is not a valid JSON object");
  EXPECT_THAT(refusal("/v1/chat/completions", chat(R"(,"tools":[{"type":"function"}])")),
              HasSubstr("400 'tools'"));
  EXPECT_THAT(refusal("/v1/chat/completions", chat(R"(,"response_format":{"type":"json_object"})")),
              HasSubstr("'response_format'"));
  EXPECT_THAT(refusal("/v1/chat/completions", chat(R"(,"temperature":"hot")")),
              HasSubstr("'temperature'"));
  EXPECT_THAT(refusal("/v1/chat/completions", chat(R"(,"temperature":3)")),
              HasSubstr("from 0 to 2"));
  EXPECT_THAT(
      refusal("/v1/chat/completions",
              R"({"model":"demo","messages":[{"role":"user","content":[{"type":"image_url"}]}]})"),
      HasSubstr("'image_url'"));
  EXPECT_THAT(refusal("/v1/chat/completions", R"({"model":"other","messages":[]})"),
              StartsWith("404 the model 'other'"));
  EXPECT_THAT(
      refusal("/v1/messages", R"({"model":"demo","messages":[{"role":"user","content":"x"}]})"),
      HasSubstr("'max_tokens' is missing"));
  for (const auto& leaf : recorder_.wait_for("response", 8))
    EXPECT_EQ(leaf.fields["status"], "rejected");
}

TEST_F(Local, AMemberOfTheWrongTypeIsRefusedAndRecordedWhereverItStands) {
  start_local();
  const char* bodies[] = {
      R"({"model":"demo","messages":[{"role":"user","content":[{"type":5,"text":"x"}]}]})",
      R"({"model":"demo","messages":[{"role":"user","content":[{"type":null}]}]})",
      R"({"model":"demo","messages":[{"role":5,"content":"x"}]})",
      R"({"model":"demo","messages":[5]})",
      R"({"model":"demo","messages":{"role":"user"}})",
      R"({"model":"demo","messages":[{"role":"user","content":"x"}],"thinking":{"type":5}})",
      R"({"model":"demo","messages":[{"role":"user","content":"x"}],"response_format":{"type":1}})",
      R"({"model":"demo","messages":[{"role":"user","content":"x"}],"functions":{"type":[]}})",
      R"({"model":"demo","max_tokens":4,"system":[{"type":7}],"messages":[{"role":"user","content":"x"}]})"};
  std::size_t asked = 0;
  for (const char* target : {"/v1/chat/completions", "/v1/messages"}) {
    for (const char* body : bodies) {
      const Message got = ask(target, body);
      ++asked;
      EXPECT_THAT(got.head, StartsWith("HTTP/1.1 ")) << target << body;
      const auto leaves = recorder_.wait_for("response", asked);
      ASSERT_EQ(leaves.size(), asked) << target << body;
      const std::string status = leaves.back().fields["status"];
      EXPECT_EQ(got.head.substr(9, 3) == "200", status == "complete") << target << body;
    }
  }
}

TEST_F(Local, AStopSequenceEndsTheAnswerAndIsNeverGivenOut) {
  config_.cache = {false, false, false, false, std::chrono::seconds(0), 0};
  start_local();
  const auto content = [](const Message& m) {
    return Json::parse(m.body)["choices"][0]["message"]["content"].get<std::string>();
  };
  const std::string all = content(ask("/v1/chat/completions", chat(R"(,"temperature":0)")));
  ASSERT_GT(all.size(), 6u);
  const std::string stop = all.substr(4, 2);
  const std::string cut =
      content(ask("/v1/chat/completions", chat(R"(,"temperature":0,"stop":)" + Json(stop).dump())));
  EXPECT_EQ(cut, all.substr(0, all.find(stop)));
  std::string streamed;
  for (const Json& chunk :
       events(ask("/v1/chat/completions",
                  chat(R"(,"temperature":0,"stream":true,"stop":)" + Json(stop).dump()))
                  .body)) {
    streamed += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(streamed, cut);
}

TEST_F(Local, GoesToTheRemoteForModelsItDoesNotHave) {
  start_local();
  stop();
  upstream_ = std::make_unique<MockUpstream>([](Wire& wire) {
    read_message(wire);
    wire.send(answer(R"({"id":"remote"})"));
    wire.read_all();
  });
  add_upstream("mock", upstream_->url());
  start_local();
  EXPECT_EQ(Json::parse(ask("/v1/chat/completions", R"({"model":"gpt","messages":[]})").body)["id"],
            "remote");
  EXPECT_EQ(Json::parse(ask("/v1/chat/completions", chat("")).body)["model"], "demo");
}

}  // namespace
}  // namespace verbatim::test
