// What a stream says beside its text, or where clients do not agree on what it says.

#include "replay/answer_stream.hpp"

#include <gtest/gtest.h>

#include <string>

namespace verbatim::replay {
namespace {

using gateway::Api;

std::string data(const std::string& json) { return "data: " + json + "\n\n"; }
std::string event(const std::string& type, const std::string& rest = "") {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + rest + "}\n\n";
}
std::string delta(const std::string& members, const std::string& beside = "") {
  return data(R"({"choices":[{"index":0,"delta":{)" + members + "}" + beside + "}]}");
}
std::string chat(const std::string& stream) { return beside_in_stream(Api::openai_chat, stream); }
std::string anthropic(const std::string& stream) {
  return beside_in_stream(Api::anthropic_messages, stream);
}

const std::string kDone = "data: [DONE]\n\n";
const std::string kHello = delta(R"("role":"assistant","content":"Hello")");
const std::string kEnd = delta("", R"(,"finish_reason":"stop")");

TEST(AnswerStream, HonestStreamsSayNothingBesideTheirText) {
  EXPECT_EQ(chat(kHello + kEnd + kDone), "");
  EXPECT_EQ(chat(": comment\n\n" + kHello + kEnd +
                 data(R"({"choices":[],"usage":{"total_tokens":3},"x_groq":{"id":"r"}})") + kDone),
            "");
  EXPECT_EQ(chat(data(R"({"choices":[],"prompt_filter_results":[{"prompt_index":0}]})") + kHello +
                 kEnd + kDone),
            "");
  EXPECT_EQ(
      beside_in_stream(Api::openai_completions,
                       data(R"({"choices":[{"index":0,"text":"a","finish_reason":"stop"}]})")),
      "");
  EXPECT_EQ(
      anthropic(
          event("message_start", R"(,"message":{"role":"assistant","content":[]})") +
          event("ping") +
          event("content_block_start", R"(,"index":0,"content_block":{"type":"text","text":""})") +
          event("content_block_delta",
                R"(,"index":0,"delta":{"type":"text_delta","text":"Hello"})") +
          event("content_block_stop", R"(,"index":0)") +
          event("message_delta", R"(,"delta":{"stop_reason":"end_turn"})") + event("message_stop")),
      "");
}

TEST(AnswerStream, WordsInAnyOtherPlaceAreFound) {
  for (const std::string& stream :
       {kHello + kEnd + kDone + kHello,                                // behind the end
        kHello + kEnd + kHello + kDone,                                // behind its own end
        kDone + kHello,                                                //
        kHello + delta(R"("content":[{"type":"text","text":"No"}])"),  // a list
        kHello + delta(R"("content":42)"),                             //
        delta(R"("role":"No.")"),                                      //
        delta(R"("reasoning":"No.")"),                                 //
        delta("", R"(,"text":"No.")"),                                 //
        delta("", R"(,"message":{"content":"No."})"),                  //
        data(R"({"choices":[],"output_text":"No."})"),                 //
        data(R"({"error":{"message":"No."}})"),                        //
        "event: error\n" + kHello,                                     //
        data(R"({"type":"response.output_text.delta","delta":"No."})"),
        kHello + "data: {\"choices\":[{\"delta\":{\"content\":\"No.\"}}]}"}) {  // no empty line
    EXPECT_NE(chat(stream), "") << stream;
  }
}

TEST(AnswerStream, MessagesAreReadInOneOrder) {
  const std::string start = event("message_start", R"(,"message":{"content":[]})");
  const std::string block =
      event("content_block_start", R"(,"index":0,"content_block":{"type":"text","text":""})");
  const std::string words =
      event("content_block_delta", R"(,"index":0,"delta":{"type":"text_delta","text":"No"})");
  const std::string stop = event("content_block_stop", R"(,"index":0)");
  for (const std::string& stream :
       {event("message_start", R"(,"message":{"content":[{"type":"text","text":"No"}]})"),
        start + start, block, start + words, start + block + block, start + block + stop + words,
        start + block + stop + block, start + event("message_stop") + words,
        start + block + event("ping", R"(,"text":"No")"),
        start + event("content_block_start",
                      R"(,"index":0,"content_block":{"type":"thinking","thinking":""})"),
        start + block +
            event("content_block_delta",
                  R"(,"index":0,"delta":{"type":"thinking_delta","thinking":"No"})"),
        start + "event: ping\ndata: {\"type\":\"content_block_delta\"}\n\n",
        start + event("error", R"(,"error":{"message":"No"})"),
        start + event("message_delta", R"(,"delta":{"text":"No"})")}) {
    EXPECT_NE(anthropic(stream), "") << stream;
  }
  EXPECT_EQ(anthropic(start + block + words + stop), "");
}

}  // namespace
}  // namespace verbatim::replay
