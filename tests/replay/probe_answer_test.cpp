// What of an endpoint's answer a probe compares: all that a reader would call the answer, and nothing that is random.

#include "replay/answer_text.hpp"

#include <gtest/gtest.h>

#include <set>

namespace verbatim::replay {
namespace {

using gateway::Api;

/// The text; of what is no answer, the word for it.
std::string text_of(Api api, const std::string& body) {
  const auto answer = read_answer_text(api, body);
  return answer ? answer->text : "!" + answer.error().what;
}

std::string chat(const std::string& message) {
  return text_of(Api::openai_chat, R"({"choices":[{"index":0,"message":)" + message + "}]}");
}

std::string anthropic(const std::string& content) {
  return text_of(Api::anthropic_messages, R"({"content":)" + content + "}");
}

TEST(ProbeAnswer, APlainTextIsItself) {
  EXPECT_EQ(chat(R"({"content":"Hi.\n[[1,2],[3,4]]\n\\[[x]]\n"})"),
            "Hi.\n[[1,2],[3,4]]\n\\[[x]]\n");
  EXPECT_EQ(anthropic(R"([{"type":"text","text":"Hi"}])"), "Hi");
  EXPECT_EQ(text_of(Api::openai_completions, R"({"choices":[{"text":" upon"}]})"), " upon");
}

TEST(ProbeAnswer, TextInPartsIsTheSameText) {
  EXPECT_EQ(chat(R"({"content":[{"type":"text","text":"He"},{"type":"text","text":"llo"}]})"),
            "Hello");
  EXPECT_EQ(anthropic(R"([{"type":"text","text":"He"},{"type":"text","text":"llo"}])"), "Hello");
}

TEST(ProbeAnswer, OtherPartsFollowUnderTheirNames) {
  EXPECT_EQ(chat(R"({"content":"Hm.","refusal":"I will not."})"), "Hm.\n[[refusal]]\nI will not.");
  EXPECT_EQ(chat(R"({"content":[{"type":"refusal","refusal":"No"}]})"), "[[refusal]]\nNo");
  EXPECT_EQ(
      chat(
          R"({"content":null,"tool_calls":[{"id":"r1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]})"),
      R"([[tool call]])"
      "\n"
      R"({"function":{"arguments":"{\"a\":1}","name":"f"},"type":"function"})");
  EXPECT_EQ(chat(R"({"content":null,"function_call":{"name":"f","arguments":"{}"}})"),
            "[[tool call]]\n{\"arguments\":\"{}\",\"name\":\"f\"}");
  EXPECT_EQ(chat(R"({"content":"","audio":{"id":"a1","data":"UklGRg==","transcript":"Hi"}})"),
            "[[audio]]\nHi");
  EXPECT_EQ(chat(R"({"content":[{"type":"image","id":"i1","url":"u"}]})"),
            "[[part]]\n{\"type\":\"image\",\"url\":\"u\"}");
}

TEST(ProbeAnswer, ReasoningFollowsWhatWasSaidOnce) {
  EXPECT_EQ(chat(R"({"content":"4","reasoning_content":"2 + 2"})"), "4\n[[reasoning]]\n2 + 2");
  EXPECT_EQ(chat(R"({"content":"4","reasoning_content":"2 + 2","reasoning":"2 + 2"})"),
            "4\n[[reasoning]]\n2 + 2");
  EXPECT_EQ(chat(R"({"content":null,"reasoning":"2 + 2"})"), "[[reasoning]]\n2 + 2");
  EXPECT_EQ(chat(R"({"content":[{"type":"thinking","thinking":[{"type":"text","text":"2 + 2"}]},
                                {"type":"text","text":"4"}]})"),
            "4\n[[reasoning]]\n2 + 2");
}

TEST(ProbeAnswer, AnthropicsBlocksKeepTheirOrderAndLoseWhatIsRandom) {
  EXPECT_EQ(anthropic(R"([{"type":"thinking","thinking":"Let me see.","signature":"c2ln"},
                          {"type":"redacted_thinking","data":"eHh4"},
                          {"type":"text","text":"I look."},
                          {"type":"tool_use","id":"toolu_1","name":"look","input":{"id":7}},
                          {"type":"text","text":"Done."}])"),
            "I look.\n[[tool call]]\n{\"input\":{\"id\":7},\"name\":\"look\",\"type\":\"tool_use\"}"
            "\n[[text]]\nDone.\n[[reasoning]]\nLet me see.");
}

TEST(ProbeAnswer, AllChoicesAreReadInTheOrderOfTheirIndex) {
  const std::string body =
      R"({"choices":[{"index":2,"message":{"content":"c"}},{"index":0,"message":{"content":"a"},"finish_reason":"stop"},
                     {"index":1,"message":{"content":"b"},"finish_reason":"length"}]})";
  const auto answer = read_answer_text(Api::openai_chat, body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, "a\n[[choice 1]]\nb\n[[choice 2]]\nc");
  EXPECT_EQ(answer->finish, "stop");
  EXPECT_EQ(text_of(Api::openai_completions,
                    R"({"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"}]})"),
            "a\n[[choice 1]]\nb");
}

TEST(ProbeAnswer, AnAnswerWithNothingInItIsNone) {
  for (const char* message :
       {"{}", "null", R"({"content":null})", R"({"content":""})", R"({"content":[]})",
        R"({"content":[{"type":"text","text":""}],"tool_calls":[],"refusal":null})"}) {
    EXPECT_EQ(chat(message), "!no_answer") << message;
  }
  EXPECT_EQ(anthropic("[]"), "!no_answer");
  EXPECT_EQ(anthropic(R"([{"type":"thinking","thinking":"","signature":"x"}])"), "!no_answer");
  EXPECT_EQ(text_of(Api::openai_completions, R"({"choices":[{"text":""}]})"), "!no_answer");
  EXPECT_EQ(text_of(Api::openai_chat, R"({"choices":[]})"), "!no_answer");
  EXPECT_EQ(text_of(Api::openai_chat, "{"), "!not_json");
}

TEST(ProbeAnswer, DifferentAnswersAreDifferentTexts) {
  const char* const messages[] = {
      R"({"content":"a\n[[refusal]]\nb"})",
      R"({"content":"a\n\\[[refusal]]\nb"})",
      R"({"content":"a","refusal":"b"})",
      R"({"content":"a\n","refusal":"b"})",
      R"({"content":"a\nb"})",
      R"({"content":"[[refusal]]\nb"})",
      R"({"refusal":"b"})",
      R"({"content":[{"type":"text","text":"[[refu"},{"type":"text","text":"sal]]\n\nb"}]})",
      R"({"refusal":"\nb"})",
      R"({"content":"\n[[choice 1]]\na"})",
      R"({"content":"a","reasoning":"b\n[[reasoning]]\nc"})",
      R"({"content":"a","reasoning_content":"b","reasoning":"c"})",
  };
  std::set<std::string> texts;
  for (const char* message : messages) texts.insert(chat(message));
  texts.insert(
      text_of(Api::openai_chat, R"({"choices":[{"message":{}},{"message":{"content":"a"}}]})"));
  EXPECT_EQ(texts.size(), std::size(messages) + 1);
}

TEST(ProbeAnswer, TokensAreThoseOfTheTextThatTheAnswerBeginsWith) {
  const std::string logprobs =
      R"("logprobs":{"content":[{"token":"a","logprob":-0.5,"top_logprobs":[]}]})";
  const auto said = read_answer_text(
      Api::openai_chat, R"({"choices":[{"message":{"content":"a"},)" + logprobs + "}]}");
  ASSERT_TRUE(said);
  EXPECT_EQ(said->tokens.size(), 1U);
  const auto called = read_answer_text(
      Api::openai_chat,
      R"({"choices":[{"message":{"function_call":{"name":"f"}},)" + logprobs + "}]}");
  ASSERT_TRUE(called);
  EXPECT_TRUE(called->tokens.empty());
}

}  // namespace
}  // namespace verbatim::replay
