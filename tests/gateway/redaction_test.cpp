// What the redaction rules find in texts, bodies and paths, and what is left of them.

#include "gateway/body_redaction.hpp"
#include "gateway/capture.hpp"
#include "gateway/config.hpp"
#include "schema/canonical_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbatim::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kCard = "4111111111111111";

std::vector<std::string> found(std::string_view text, SecretKind kind) {
  SecretKinds kinds;
  kinds.set(static_cast<std::size_t>(kind));
  std::vector<std::string> out;
  for (const SecretSpan& span : find_secrets(text, kinds)) {
    out.emplace_back(text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

TEST(SecretPatterns, CardNumbersAreFoundInEveryWayToWriteThem) {
  for (const char* card :
       {"4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "5500 0000 0000 0004",
        "340000000000009", "3400 000000 00009", "30000000000004", "6011000000000004",
        "4222222222222", "6304000000000000000",
        "4111\xC2\xA0"
        "1111\xC2\xA0"
        "1111\xC2\xA0"
        "1111",
        "4111\xE2\x80\x91"
        "1111\xE2\x80\x91"
        "1111\xE2\x80\x91"
        "1111",
        "\xEF\xBC\x94\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91"
        "\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91\xEF\xBC\x91"
        "\xEF\xBC\x91\xEF\xBC\x91"}) {
    EXPECT_EQ(found(std::string("pay with ") + card + ", please", SecretKind::card_number),
              std::vector<std::string>{card})
        << card;
  }
  EXPECT_EQ(found("room 12 4111 1111 1111 1111", SecretKind::card_number).size(), 1u);
  EXPECT_EQ(found("4111111111111111 and 5500000000000004", SecretKind::card_number).size(), 2u);
}

TEST(SecretPatterns, OtherNumbersAreNot) {
  for (const char* other :
       {"4111111111111112", "411111111111", "41111111111111111111111111111111", "1764452872123",
        "0.4111111111111111", "-3.4111111111111111", "4111  1111  1111  1111", "", "4", "4111."}) {
    EXPECT_TRUE(found(other, SecretKind::card_number).empty()) << other;
  }
}

TEST(SecretPatterns, EmailAddressesEndWhereTheirDomainDoes) {
  EXPECT_EQ(found("mail a.b+c@example.co.uk. Or <x@y.org>", SecretKind::email),
            (std::vector<std::string>{"a.b+c@example.co.uk", "x@y.org"}));
  EXPECT_EQ(found("j\xC3\xBCrgen@b\xC3\xBC"
                  "cher.de",
                  SecretKind::email)
                .size(),
            1u);
  for (const char* other : {"@", "a@", "@b.c", "a@b", "a@b.", "a @b.c", "user@host:22"}) {
    EXPECT_TRUE(found(other, SecretKind::email).empty()) << other;
  }
}

TEST(SecretPatterns, ApiKeysAreToldByTheirBeginningAndLength) {
  const std::string tail(40, 'a');
  for (const char* prefix : {"sk-", "sk-ant-", "sk-proj-", "sk_live_", "AKIA", "AIza", "AQ.",
                             "ghp_", "glpat-", "xoxb-", "hf_", "github_pat_", "vb-"}) {
    const std::string key = prefix + tail;
    EXPECT_EQ(found("key=" + key + ";", SecretKind::api_key), std::vector<std::string>{key});
  }
  EXPECT_EQ(found("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", SecretKind::api_key).size(), 1u);
  // An encrypted one, whole; a direct key has an empty second part.
  for (const char* token : {"eyJhbGciOiJSU0E.OKOawDo13gRp2.48V1_ALb6US04.5eym8TW_c8Su.XFBoMYUZode",
                            "eyJhbGciOiJkaXI..48V1_ALb6US04.5eym8TW_c8Su.XFBoMYUZode"}) {
    EXPECT_EQ(found("is " + std::string(token) + ". And", SecretKind::api_key),
              std::vector<std::string>{token});
  }
  EXPECT_EQ(found("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\n",
                  SecretKind::api_key),
            std::vector<std::string>{
                "-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----"});
  // One that is cut is a secret to its end.
  EXPECT_EQ(found("-----BEGIN PRIVATE KEY-----\nabc", SecretKind::api_key).size(), 1u);
  for (const char* other : {"sk-short", "task-force-of-the-long-name", "eyJ.a.b", "AKIA"}) {
    EXPECT_TRUE(found(other, SecretKind::api_key).empty()) << other;
  }
}

TEST(SecretPatterns, WhatLooksLikeManyBeginningsIsReadOnce) {
  // A search that read on from each beginning would not end in this test's time.
  std::string many;
  while (many.size() < (8u << 20)) many += "eyJ-";
  EXPECT_TRUE(found(many, SecretKind::api_key).empty());
  EXPECT_TRUE(found(many + "." + many, SecretKind::api_key).empty());
  const RedactionRules none;
  const std::vector<TakenText> taken = {{std::string(1u << 20, 'a') + "b", "r"}};
  EXPECT_TRUE(TextSearch(none, taken).find(std::string(8u << 20, 'a')).empty());
  // Many that overlap are one, and never held all at once.
  std::vector<TakenText> nested;
  for (std::size_t size = 6; size < 70; ++size) nested.push_back({std::string(size, 'a'), "r"});
  const std::string run(1u << 20, 'a');
  const auto hits = TextSearch(none, nested).find(run);
  std::size_t covered = 0;
  for (const auto& hit : hits) covered += hit.end - hit.begin;
  EXPECT_EQ(covered, run.size());
}

TEST(JsonPointers, AreRfc6901WithAStarForAnyStep) {
  const auto matches = [](const char* pointer, std::vector<std::string> path) {
    return JsonPointer::parse(pointer).value().matches(path);
  };
  EXPECT_TRUE(matches("/messages/*/content", {"messages", "7", "content"}));
  EXPECT_FALSE(matches("/messages/*/content", {"messages", "7", "content", "0"}));
  EXPECT_FALSE(matches("/messages", {"messages", "7"}));
  EXPECT_TRUE(matches("/a~1b/m~0n", {"a/b", "m~n"}));
  EXPECT_TRUE(matches("", {}));
  EXPECT_TRUE(matches("/", {""}));
  for (const char* bad : {"a", "/~", "/~2", "messages/0"}) {
    EXPECT_FALSE(JsonPointer::parse(bad)) << bad;
  }
  EXPECT_EQ(JsonPointer::parse("/a~1b/*/~0").value().str(), "/a~1b/*/~0");
}

/// One rule "r" with all patterns, and the pointers given.
RedactionRules rules(std::vector<std::string> pointers = {},
                     std::vector<std::string> answer_pointers = {}, bool patterns = true) {
  RedactionRule rule;
  rule.name = "r";
  for (const auto& text : pointers) rule.pointers.push_back(JsonPointer::parse(text).value());
  for (const auto& text : answer_pointers) {
    rule.answer_pointers.push_back(JsonPointer::parse(text).value());
  }
  if (patterns) rule.patterns.set();
  return {std::make_shared<const RedactionRule>(std::move(rule))};
}

struct Redacted {
  std::string text;
  BodyRedaction how;
};
Redacted request(std::string_view body, const RedactionRules& by,
                 std::string_view type = "application/json") {
  BodyQuestion question{type, body};
  auto how = redact_body(question, by, {});
  return {how.apply(body), std::move(how)};
}
Redacted answer(Api api, std::string_view body, const RedactionRules& by,
                std::string_view type = "text/event-stream", std::vector<TakenText> taken = {}) {
  BodyQuestion question{type, body, api, true, false};
  auto how = redact_body(question, by, taken);
  return {how.apply(body), std::move(how)};
}

TEST(BodyRedaction, TakesOutSecretsAndKeepsAllOtherBytes) {
  const Redacted got = request(
      "{ \"model\":\"m\",\n\"x\": 1.50, \"messages\":[{\"content\":\"my card 4111 1111 1111 1111"
      "\\n and \\u0061@b.org\"}], \"n\":4111111111111111 }",
      rules());
  EXPECT_EQ(got.text,
            "{ \"model\":\"m\",\n\"x\": 1.50, \"messages\":[{\"content\":\"my card REDACTED"
            "\\u000a and REDACTED\"}], \"n\":\"REDACTED\" }");
  EXPECT_EQ(got.how.counts.at("r"), 3u);
  EXPECT_EQ(request("[4111111111111111.0,4111111111111111e0,-4111111111111111]", rules()).text,
            "[\"REDACTED.0\",\"REDACTEDe0\",\"-REDACTED\"]");
  const std::string plain = R"({"content" : "nothing", "n":12})";
  EXPECT_EQ(request(plain, rules()).text, plain);
  EXPECT_TRUE(request(plain, rules()).how.edits.empty());
}

TEST(BodyRedaction, FindsSecretsInKeysAndBehindEscapes) {
  EXPECT_EQ(request(R"({"a@b.org":1})", rules()).text, R"({"REDACTED":1})");
  const Redacted got =
      request(R"({"c":"\u0034\u0031\u0031\u0031111111111111","e":"a\u0040b.org"})", rules());
  EXPECT_EQ(got.text, R"({"c":"REDACTED","e":"REDACTED"})");
}

TEST(BodyRedaction, PointersTakeOutWholeValuesOfEveryKind) {
  const Redacted got = request(
      R"({"user":"Jane Roe","messages":[{"name":"x","content":"a"},{"name":[1,"deep secret"]}],"messages2":1})",
      rules({"/user", "/messages/*/name"}, {}, false));
  EXPECT_EQ(
      got.text,
      R"({"user":"REDACTED","messages":[{"name":"REDACTED","content":"a"},{"name":"REDACTED"}],"messages2":1})");
  EXPECT_EQ(got.how.counts.at("r"), 3u);
  ASSERT_EQ(got.how.taken.size(), 2u);  // not those that are too short to be looked for
  EXPECT_EQ(got.how.taken[0].text, "Jane Roe");
  EXPECT_EQ(got.how.taken[1].text, "deep secret");
  // However a key is written, and however often.
  EXPECT_EQ(request(R"({"\u0075ser":"a","user":"b"})", rules({"/user"}, {}, false)).text,
            R"({"\u0075ser":"REDACTED","user":"REDACTED"})");
}

TEST(BodyRedaction, WhatWasTakenOutOfTheRequestIsTakenOutOfTheAnswer) {
  const Redacted got =
      answer(Api::openai_chat, R"({"choices":[{"message":{"content":"Hello Jane Roe!"}}]})",
             rules({"/user"}, {}, false), "application/json", {{"Jane Roe", "r"}});
  EXPECT_EQ(got.text, R"({"choices":[{"message":{"content":"Hello REDACTED!"}}]})");
}

std::string chat_delta(int index, const std::string& content) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + content +
         "\"},\"index\":" + std::to_string(index) + "}]}\n\n";
}

TEST(BodyRedaction, FindsSecretsThatAreCutAcrossEvents) {
  const std::string stream = chat_delta(0, "card 41") + chat_delta(1, "nothing ") +
                             chat_delta(0, "11 1111 ") + ": a comment\n\n" +
                             chat_delta(0, "1111 1111.") + "data: [DONE]\n\n";
  const Redacted got = answer(Api::openai_chat, stream, rules());
  EXPECT_EQ(got.text, chat_delta(0, "card REDACTED") + chat_delta(1, "nothing ") +
                          chat_delta(0, "") + ": a comment\n\n" + chat_delta(0, ".") +
                          "data: [DONE]\n\n");
  EXPECT_EQ(got.how.counts.at("r"), 1u);
  // Choices are texts of their own: together they would be no card number.
  const std::string apart =
      chat_delta(0, "41111111") + chat_delta(1, "9") + chat_delta(0, "11111111");
  EXPECT_THAT(answer(Api::openai_chat, apart, rules()).text, Not(HasSubstr("1111")));
  // Event times point to the same events.
  const std::size_t done = stream.find("data: [DONE]");
  EXPECT_EQ(got.text.substr(MovedPlaces(got.how.edits)(done)), "data: [DONE]\n\n");
  EXPECT_EQ(MovedPlaces(got.how.edits)(0), 0u);
}

TEST(BodyRedaction, FindsSecretsInEveryApisStream) {
  const auto message = [](const char* text, const char* delta) {
    return std::string(
               "event: content_block_delta\ndata: {\"type\":\"content_block_delta\","
               "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"") +
           text + "\":\"" + delta + "\"}}\n\n";
  };
  for (const char* member : {"text", "thinking", "partial_json"}) {
    EXPECT_THAT(answer(Api::anthropic_messages,
                       message(member, "a@exam") + message(member, "ple.org "), rules())
                    .text,
                Not(HasSubstr("exam")));
  }
  const auto response = [](int part, const char* delta) {
    return "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"content_index\":" +
           std::to_string(part) + ",\"sequence_number\":" + std::to_string(part + 7) +
           ",\"delta\":\"" + delta + "\"}\n\n";
  };
  EXPECT_THAT(
      answer(Api::openai_responses, response(0, "4111 1111 ") + response(0, "1111 1111"), rules())
          .text,
      Not(HasSubstr("1111")));
  const auto tool = [](const char* arguments) {
    return std::string(
               "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,"
               "\"function\":{\"arguments\":\"") +
           arguments + "\"}}]}}]}\n\n";
  };
  EXPECT_THAT(
      answer(Api::openai_chat, tool("{\\\"card\\\":\\\"411111") + tool("1111111111\\\"}"), rules())
          .text,
      Not(HasSubstr("1111")));
  // A JSON value a line, as Ollama streams.
  EXPECT_THAT(answer(Api::generic,
                     "{\"message\":{\"content\":\"411111\"}}\n"
                     "{\"message\":{\"content\":\"1111111111\"}}\n",
                     rules(), "application/x-ndjson")
                  .text,
              Not(HasSubstr("1111")));
}

TEST(BodyRedaction, ThePartsOfAGoogleAnswerMakeOneText) {
  const auto part = [](const char* text, const char* more = "") {
    return std::string(R"({"candidates":[{"content":{"parts":[{"text":")") + text + R"("}]})" +
           more + "}]}";
  };
  const auto found = [](const std::string& body, const char* type = "application/json") {
    return answer(Api::gemini_generate_content, body, rules(), type).text;
  };
  const std::string events = "data: " + part("411111", R"(,"index":0)") +
                             "\r\n\r\ndata: " + part("1111111111") + "\r\n\r\n";
  EXPECT_THAT(found(events, "text/event-stream"), Not(HasSubstr("1111")));
  const std::string array = "[" + part("411111") + "\n,\r\n" +
                            part("1111111111", R"(,"index":0,"avgLogprobs":-0.5)") + "\n]\n";
  EXPECT_EQ(found(array), "[" + part("REDACTED") + "\n,\r\n" +
                              part("", R"(,"index":0,"avgLogprobs":"REDACTED")") + "\n]\n");
  const std::string whole =
      R"({"candidates":[{"content":{"parts":[{"text":"411111"},{"text":"1111111111"}]}}]})";
  EXPECT_THAT(found(whole), Not(HasSubstr("1111")));
  // Thoughts between the pieces of a text are none of it; neither is another candidate.
  const std::string between =
      R"({"candidates":[{"content":{"parts":[{"text":"411111"},{"text":"2","thought":true},{"text":"1111111111"}]}}]})";
  EXPECT_THAT(found(between), Not(HasSubstr("1111")));
  const std::string apart =
      "[" + part("411111", R"(,"index":0)") + "," + part("1111111111", R"(,"index":1)") + "]";
  EXPECT_EQ(found(apart), apart);
  // Pointers are into each of an array's items, as into each event.
  const auto by = rules({}, {"/candidates/*/content/parts/*/text"}, false);
  for (const std::string& body : {array, whole}) {
    const auto got = answer(Api::gemini_generate_content, body, by, "application/json");
    EXPECT_THAT(got.text, Not(HasSubstr("11")));
  }
  EXPECT_THAT(answer(Api::gemini_generate_content, events, by).text, Not(HasSubstr("11")));
}

TEST(BodyRedaction, EmbeddingsGoWithTheTextTheyAreOf) {
  const std::string body = R"({"data":[{"embedding":[0.5,1],"index":0}],"model":"e"})";
  BodyQuestion question{"application/json", body, Api::openai_embeddings, true, false};
  EXPECT_TRUE(redact_body(question, rules(), {}).edits.empty());
  question.derived_anyway = true;
  EXPECT_EQ(redact_body(question, rules(), {}).apply(body),
            R"({"data":[{"embedding":"REDACTED","index":0}],"model":"e"})");
}

TEST(BodyRedaction, LogprobsGoWithTheTextTheyTellOnceMore) {
  const std::string body =
      R"({"choices":[{"message":{"content":"41111111 11111111"},"logprobs":{"content":[{"token":"411","bytes":[52,49,49]}]}}],"usage":{"total_tokens":2}})";
  const Redacted got = answer(Api::openai_chat, body, rules(), "application/json");
  EXPECT_EQ(
      got.text,
      R"({"choices":[{"message":{"content":"REDACTED"},"logprobs":"REDACTED"}],"usage":{"total_tokens":2}})");
  EXPECT_EQ(got.how.counts.at("derived"), 1u);
  // Nothing else gives reason to.
  const std::string harmless =
      R"({"choices":[{"message":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]})";
  EXPECT_EQ(answer(Api::openai_chat, harmless, rules(), "application/json").text, harmless);
}

TEST(BodyRedaction, AnswerPointersReachTheSameTextsInStreams) {
  const auto by = rules({}, {"/choices/*/message/content", "/content/*/text", "/output"}, false);
  const std::string chat = chat_delta(0, "secret one");
  EXPECT_THAT(answer(Api::openai_chat, chat, by).text, Not(HasSubstr("secret")));
  const std::string messages =
      "data: {\"type\":\"content_block_start\",\"content_block\":{\"text\":\"secret\"}}\n\n"
      "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"secret\"}}\n\n"
      "data: {\"type\":\"message_start\",\"message\":{\"content\":[{\"text\":\"secret\"}]}}\n\n";
  EXPECT_THAT(answer(Api::anthropic_messages, messages, by).text, Not(HasSubstr("secret")));
  const std::string responses =
      "data: {\"type\":\"response.output_text.delta\",\"delta\":\"secret\"}\n\n"
      "data: {\"type\":\"response.output_text.done\",\"text\":\"secret\"}\n\n"
      "data: {\"type\":\"response.completed\",\"response\":{\"output\":[\"secret\"]}}\n\n";
  EXPECT_THAT(answer(Api::openai_responses, responses, by).text, Not(HasSubstr("secret")));
}

TEST(BodyRedaction, ChoicesAndToolCallsAreNamedByTheirIndex) {
  const auto by = rules({},
                        {"/choices/1/message/content",
                         "/choices/*/message/tool_calls/1/function/arguments", "/choices/1/text"},
                        false);
  EXPECT_THAT(answer(Api::openai_chat, chat_delta(1, "secret"), by).text, Not(HasSubstr("secret")));
  EXPECT_THAT(answer(Api::openai_chat,
                     R"(data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":)"
                     R"({"arguments":"secret"}}]}}]})"
                     "\n\n",
                     by)
                  .text,
              Not(HasSubstr("secret")));
  EXPECT_THAT(answer(Api::openai_completions,
                     "data: {\"choices\":[{\"index\":1,\"text\":\"secret\"}]}\n\n", by)
                  .text,
              Not(HasSubstr("secret")));
  // Out of order.
  EXPECT_THAT(
      answer(Api::openai_chat, R"({"choices":[{"index":1,"message":{"content":"secret"}}]})", by,
             "application/json")
          .text,
      Not(HasSubstr("secret")));
}

TEST(BodyRedaction, AnApiThatThePathHidesHasItsStreamsPointers) {
  const auto by = rules({},
                        {"/choices/*/message/content", "/content/*/text", "/output",
                         "/candidates/*/content/parts/*/text"},
                        false);
  for (const std::string& stream :
       {chat_delta(0, "secret"),
        std::string("data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"secret\"}}\n\n"),
        std::string("data: {\"type\":\"response.output_text.delta\",\"delta\":\"secret\"}\n\n")}) {
    EXPECT_THAT(answer(Api::generic, stream, by).text, Not(HasSubstr("secret"))) << stream;
  }
  const std::string array = R"([{"candidates":[{"content":{"parts":[{"text":"secret"}]}}]}])";
  EXPECT_THAT(answer(Api::generic, array, by, "application/json").text, Not(HasSubstr("secret")));
  EXPECT_EQ(
      answer(Api::generic, R"([{"t":"secret"}])", rules({}, {"/0/t"}, false), "application/json")
          .text,
      R"([{"t":"REDACTED"}])");
  EXPECT_EQ(answer(Api::generic, R"([{"t":"a@"},{"t":"b.org"}])", rules(), "application/json").text,
            R"([{"t":"REDACTED"},{"t":""}])");
}

TEST(BodyRedaction, AnthropicsEventsSayCitationsAndEndsOtherwise) {
  const auto by = rules({}, {"/content/*/citations", "/stop_sequence"}, false);
  const std::string events =
      "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"citations_delta\","
      "\"citation\":{\"cited_text\":\"secret\"}}}\n\n"
      "data: {\"type\":\"message_delta\",\"delta\":{\"stop_sequence\":\"secret\"}}\n\n";
  EXPECT_THAT(answer(Api::anthropic_messages, events, by).text, Not(HasSubstr("secret")));
  const auto inner = rules({}, {"/content/*/citations/*/cited_text"}, false);
  EXPECT_EQ(answer(Api::anthropic_messages, events, inner).text.find("secret"),
            answer(Api::anthropic_messages, events, inner).text.rfind("secret"));
}

TEST(BodyRedaction, GooglesMembersHaveTwoNames) {
  const auto by = rules({"/systemInstruction", "/generation_config/stopSequences"}, {}, false);
  for (const char* body :
       {R"({"systemInstruction":"REDACTED"})", R"({"system_instruction":"REDACTED"})",
        R"({"generationConfig":{"stop_sequences":"REDACTED"}})"}) {
    std::string with(body);
    with.replace(with.find("REDACTED"), 8, "secret");
    const BodyQuestion question{"application/json", with, Api::gemini_generate_content};
    EXPECT_EQ(redact_body(question, by, {}).apply(with), body);
  }
  // Elsewhere a name is a name.
  const BodyQuestion chat{"application/json", R"({"system_instruction":"x"})", Api::openai_chat};
  EXPECT_TRUE(redact_body(chat, by, {}).edits.empty());
}

TEST(BodyRedaction, AnEmptyLineOfDataHoldsNothingToTakeOut) {
  const auto by = rules({}, {"/choices/*/message/content"});
  for (const std::string& stream : {std::string("data:"), std::string("data:\n\ndata: [DONE]\n\n"),
                                    std::string("data:\ndata:")}) {
    EXPECT_EQ(answer(Api::openai_chat, stream, by).text, stream);
  }
  const Redacted lines = answer(Api::openai_chat, "data: {}\ndata:", by);
  EXPECT_EQ(lines.text, "data: \"REDACTED\"\ndata:");  // data in several lines is not read
  EXPECT_EQ(MovedPlaces(lines.how.edits)(14), lines.text.size());
}

TEST(BodyRedaction, NoContentTypeMakesJsonAnythingElse) {
  const std::string body = R"({"user":"Jane Roe","c":"a\u0040b.org"})";
  const std::string kept = R"({"user":"REDACTED","c":"REDACTED"})";
  for (const char* type : {"text/event-stream", "Text/Event-Stream-foo", "text/plain", "image/png",
                           "text/event-stream, application/json", ""}) {
    EXPECT_EQ(request(body, rules({"/user"}), type).text, kept) << type;
    EXPECT_EQ(answer(Api::openai_chat, body, rules({}, {"/user"}), type).text, kept) << type;
  }
  // A request is never a stream of events.
  const std::string events = chat_delta(0, "a\\u0040b.org");
  EXPECT_TRUE(request(events, rules({"/user"}), "text/event-stream").how.opaque);
  // Behind a byte order mark, servers differ on whether it is JSON.
  EXPECT_TRUE(request("\xEF\xBB\xBF" + body, rules(), "text/plain").how.opaque);
}

TEST(BodyRedaction, EventsAreReadAsTheirReadersDo) {
  const auto by = rules({}, {"/secret"});
  const std::string event = "data: {\"secret\":\"x\",\"c\":\"a\\u0040b.org\"}\n\n";
  const std::string kept = "data: {\"secret\":\"REDACTED\",\"c\":\"REDACTED\"}\n\n";
  // Whatever their type says, and behind a byte order mark, which readers ignore.
  EXPECT_EQ(answer(Api::generic, event, by, "application/json").text, kept);
  EXPECT_EQ(answer(Api::generic, "\xEF\xBB\xBF" + event, by).text, "\xEF\xBB\xBF" + kept);
  // Names, ids and comments are texts. Lines that the format does not know are not kept, nor data that pointers cannot
  // reach.
  EXPECT_EQ(answer(Api::generic, "event: ping\nid: a@b.org\n: note\n" + event, by).text,
            "event: ping\nid: REDACTED\n: note\n" + kept);
  EXPECT_EQ(answer(Api::generic, "DATA: {\"secret\":\"x\"}\n" + event, by).text,
            "\"REDACTED\"\n" + kept);
  EXPECT_EQ(answer(Api::generic, "data: plain\n\n" + event, by).text,
            "data: \"REDACTED\"\n\n" + kept);
}

TEST(BodyRedaction, BareTextsOfAStreamMakeOneText) {
  const auto in = [](std::string_view a, std::string_view b) {
    return "data: " + std::string(a) + "\n\ndata: " + std::string(b) + "\n\ndata: [DONE]\n\n";
  };
  EXPECT_EQ(answer(Api::generic, in("I am a@", "b.org now"), rules()).text,
            in("I am REDACTED", " now"));
  EXPECT_EQ(answer(Api::generic, in("\"I am a@\"", "\"b.org now\""), rules()).text,
            in("\"I am REDACTED\"", "\" now\""));
  EXPECT_EQ(answer(Api::generic, "\"a@\"\n\"b.org\"\n", rules(), "application/x-ndjson").text,
            "\"REDACTED\"\n\"\"\n");
}

TEST(BodyRedaction, MoreTextsThanAnswersAreSearchedForAreTold) {
  const auto names = [](int count) {
    std::string body = R"({"messages":[)";
    for (int i = 0; i < count; ++i) {
      body += (i > 0 ? ",{\"name\":\"person " : "{\"name\":\"person ") + std::to_string(i) + "\"}";
    }
    return body + "]}";
  };
  const auto by = rules({"/messages/*/name"}, {}, false);
  EXPECT_FALSE(request(names(64), by).how.taken_more);
  EXPECT_TRUE(request(names(65), by).how.taken_more);
  // Counted once, however often they are there.
  std::string often = R"({"messages":[)";
  for (int i = 0; i < 200; ++i) often += R"({"name":"Jane Roe"},)";
  EXPECT_EQ(request(often + "{}]}", by).how.taken.size(), 1u);
  EXPECT_FALSE(request(often + "{}]}", by).how.taken_more);
}

TEST(BodyRedaction, PlacesMoveWithWhatStandsBeforeThem) {
  const std::vector<BodyEdit> edits = {{2, 5, "x"}, {5, 6, "longer"}, {8, 8, "in"}};
  MovedPlaces moved(edits);
  const std::vector<std::size_t> want = {0, 1, 2, 3, 3, 3, 9, 10, 11, 14};
  std::vector<std::size_t> rising;
  for (std::size_t at = 0; at < want.size(); ++at) rising.push_back(moved(at));
  EXPECT_EQ(rising, want);
  EXPECT_EQ(moved(1), 1u);  // back again
  EXPECT_EQ(moved(9), 14u);
}

TEST(BodyRedaction, WhatCannotBeReadIsNotKept) {
  for (const auto& [type, body] :
       {std::pair("application/json", "{\"cut\": \"41111111"), std::pair("image/png", "\x89PNG"),
        std::pair("application/x-www-form-urlencoded", "card=4111%31"),
        std::pair("text/plain",
                  "\xFF\xFE"
                  "a"),
        std::pair("multipart/form-data", "--b")}) {
    EXPECT_TRUE(request(body, rules(), type).how.opaque) << type;
  }
  EXPECT_EQ(request("a@b.org said", rules(), "text/plain").text, "REDACTED said");
  // Pointers cannot reach into a text.
  EXPECT_TRUE(request("a text", rules({"/user"}, {}, false), "text/plain").how.opaque);
  EXPECT_FALSE(request("", rules()).how.opaque);
}

TEST(BodyRedaction, AKeyThatCannotBeUnescapedGoesWhole) {
  // An escape, and a byte that is no UTF-8: no reader tells what the key is.
  const Redacted got = request("{\"a\\u0061\xFF@b.example\":1,\"k\":\"x@b.example\"}", rules());
  EXPECT_EQ(got.text, R"({"REDACTED":1,"k":"REDACTED"})");
  EXPECT_EQ(got.how.counts.at("unreadable"), 1u);
  // What a pointer takes out is not searched.
  EXPECT_EQ(request("{\"m\":{\"\\u0061\xFF\":1}}", rules({"/m"})).text, R"({"m":"REDACTED"})");
}

TEST(BodyRedaction, EventsThatCannotBeReadGoAlone) {
  const std::string stream = chat_delta(0, "fine") +
                             "data: {\"choices\":[\ndata: \"4111\"]}\n\n"
                             "data: {\"choices\":[{\"delta\":{\"content\":\"41111";
  const Redacted got = answer(Api::openai_chat, stream, rules());
  EXPECT_EQ(got.text,
            chat_delta(0, "fine") + "data: \"REDACTED\"\ndata: \"REDACTED\"\n\ndata: \"REDACTED\"");
  EXPECT_EQ(got.how.counts.at("unreadable"), 3u);
}

TEST(BodyRedaction, DeepAndWideBodiesAreNoTrouble) {
  std::string deep;
  for (int i = 0; i < 400; ++i) deep += "[\"x\",";
  deep += "\"4111111111111111\"";
  deep.append(400, ']');
  EXPECT_THAT(request(deep, rules()).text, Not(HasSubstr("4111")));
  std::string wide = "[";
  for (int i = 0; i < 100'000; ++i) wide += "\"a\",";
  wide += "\"a@b.org\"]";
  EXPECT_THAT(request(wide, rules()).text, Not(HasSubstr("b.org")));
}

// ---- where rules are for

RequestHead head(const std::string& target, const std::string& method = "POST") {
  RequestHead out;
  out.method = method;
  out.target = target;
  return out;
}

CaptureRule level_rule(const std::string& name, const std::string& path, CaptureLevel level,
                       const std::string& api = "") {
  return {name, {path, api, ""}, level};
}

TEST(CaptureLevels, TheFirstRuleThatFitsDecides) {
  const std::vector<CaptureRule> levels{
      level_rule("chat", "*", CaptureLevel::hashes, "openai.chat"),
      level_rule("private", "/v1/private/*", CaptureLevel::metadata)};
  const auto level = [&](const std::string& target) {
    return Capture(levels, {}, head(target), "openai").level();
  };
  EXPECT_EQ(level("/v1/chat/completions?x=1"), CaptureLevel::hashes);
  EXPECT_EQ(level("/chat/completions"), CaptureLevel::hashes);
  EXPECT_EQ(level("/v1/private/a"), CaptureLevel::metadata);
  EXPECT_EQ(level("/v1/embeddings"), CaptureLevel::full);
  // What is no path cannot be asked for; it is stored as little as anything.
  EXPECT_EQ(level(""), CaptureLevel::metadata);
  EXPECT_EQ(level("http://h/v1/x"), CaptureLevel::metadata);
}

TEST(CaptureLevels, NoWayToWriteAPathLowersTheLevel) {
  const std::vector<CaptureRule> levels{
      level_rule("private", "/v1/private/*", CaptureLevel::metadata),
      level_rule("other", "*", CaptureLevel::metadata, "generic")};
  const std::vector<CaptureRule> path_only{levels[0]};
  for (const char* target :
       {"/v1/private/../chat/completions", "/v1/private/%2e%2e/chat/completions",
        "/v1/private/..%2Fchat/completions", "/v1/private/%252e%252e/chat/completions",
        "/v1/private/..\\chat/completions", "/v1/private/x/../../chat/completions"}) {
    EXPECT_EQ(Capture(path_only, {}, head(target), "o").level(), CaptureLevel::full) << target;
  }
  // A server may read each of these as chat, which the rule for other APIs is not for.
  for (const char* target : {"/v1/chat/completions/", "/v1/chat/%63ompletions",
                             "/V1/Chat/Completions", "/v1//chat/./completions"}) {
    const std::vector<CaptureRule> api_only{levels[1]};
    EXPECT_EQ(Capture(api_only, {}, head(target), "o").level(), CaptureLevel::full) << target;
  }
}

TEST(CaptureLevels, NoWayToWriteAPathEscapesARedactionRule) {
  RedactionRule rule;
  rule.name = "r";
  rule.where.path = "/v1/chat/*";
  rule.patterns.set();
  const RedactionRules by{std::make_shared<const RedactionRule>(rule)};
  for (const char* target :
       {"/v1/chat/completions", "/v1//chat/completions", "/v1/%63hat/completions",
        "/V1/chat/completions", "/v1/chat;x=1/completions", "/v1/chat%3b/completions",
        "/v1/chat%253Bx/completions", "/v1;a/chat;b/completions;c", "/V1/CHAT;x/completions",
        "/v1/x/..;/chat/completions", ""}) {
    EXPECT_TRUE(Capture({}, by, head(target), "o").redacts()) << target;
  }
  EXPECT_FALSE(Capture({}, by, head("/v1/embeddings"), "o").redacts());
}

TEST(CaptureOfHeads, TargetsAndHeadersAreRedacted) {
  RedactionRule rule;
  rule.name = "r";
  rule.headers = {"X-Patient"};
  rule.patterns.set();
  Capture capture({}, {std::make_shared<const RedactionRule>(rule)}, head("/a"), "o");
  EXPECT_EQ(capture.target("/users/a%40b.org/x?mail=c%40d.org&n=1&key=s"),
            "/users/REDACTED/x?mail=REDACTED&n=1&key=REDACTED");
  Fields fields;
  fields.add("x-patient", "Jane");
  fields.add("from", "me <a@b.org>");
  fields.add("accept", "*/*");
  const Fields got = capture.fields(fields, "request.headers");
  EXPECT_EQ(got.get("x-patient"), "REDACTED");
  EXPECT_EQ(got.get("from"), "me <REDACTED>");
  EXPECT_EQ(got.get("accept"), "*/*");
  EXPECT_FALSE(capture.repeatable()) << "the target is not as it came";
  const Json told = capture.take_description();
  EXPECT_EQ(told["redacted"]["request.headers"]["r"], 2);
  EXPECT_EQ(told["redacted"]["route.target"]["r"], 2);
  EXPECT_TRUE(capture.take_description().is_null());
}

// ---- the configuration

std::string fault_of(const std::string& toml) {
  const auto config = parse_config(toml, "c.toml");
  return config ? "" : config.error().message();
}

TEST(CaptureConfig, RulesAreReadAndDescribed) {
  const auto config = parse_config(R"(
[[capture]]
name = "private"
path = "/v1/private/*"
api = "generic"
upstream = "openai"
level = "metadata"
[[redact]]
name = "cards"
patterns = ["card_number", "email"]
pointers = ["/user"]
answer_pointers = ["/choices/*/message/content"]
headers = ["x-user"]
)",
                                   "c.toml");
  ASSERT_TRUE(config) << config.error().message();
  const Json told = Json::parse(describe_config(*config));
  EXPECT_EQ(told["capture"][0]["level"], "metadata");
  EXPECT_EQ(told["redact"][0]["patterns"], Json::parse(R"(["card_number","email"])"));
  EXPECT_EQ(told["redact"][0]["pointers"], Json::array({"/user"}));
}

TEST(CaptureConfig, MistakesAreNamed) {
  const std::string redact = "[[redact]]\nname = \"a\"\n", capture = "[[capture]]\nname = \"a\"\n";
  EXPECT_THAT(fault_of(capture), HasSubstr("needs a level"));
  EXPECT_THAT(fault_of(capture + "level = \"none\"\n"), HasSubstr("full, hashes, metadata"));
  EXPECT_THAT(fault_of("[[capture]]\nlevel = \"full\"\n"), HasSubstr("needs a name"));
  EXPECT_THAT(fault_of(capture + "level = \"full\"\npath = \"v1\"\n"),
              HasSubstr("begins with '/'"));
  EXPECT_THAT(fault_of(capture + "level = \"full\"\npath = \"/a*b\"\n"), HasSubstr("'*'"));
  EXPECT_THAT(fault_of(capture + "level = \"full\"\napi = \"x\"\n"), HasSubstr("no API"));
  EXPECT_THAT(fault_of(capture + "level = \"full\"\n" + capture + "level = \"full\"\n"),
              HasSubstr("twice"));
  EXPECT_THAT(fault_of(redact), HasSubstr("takes nothing out"));
  EXPECT_THAT(fault_of(redact + "patterns = [\"ssn\"]\n"), HasSubstr("'ssn' is no pattern"));
  EXPECT_THAT(fault_of(redact + "pointers = [\"user\"]\n"), HasSubstr("JSON pointer"));
  EXPECT_THAT(fault_of(redact + "headers = [\"a b\"]\n"), HasSubstr("name of a header"));
  EXPECT_THAT(fault_of("[[redact]]\nname = \"derived\"\npatterns = [\"email\"]\n"),
              HasSubstr("are taken"));
  EXPECT_THAT(fault_of(redact + "colour = 1\n"), HasSubstr("unknown key"));
  EXPECT_EQ(fault_of(redact + "patterns = [\"email\"]\npath = \"/v1/*\"\n"), "");
}

TEST(CaptureConfig, TheCanaryOfTheseTestsIsACardNumber) {
  EXPECT_EQ(found(kCard, SecretKind::card_number).size(), 1u);
}

}  // namespace
}  // namespace verbatim::gateway
