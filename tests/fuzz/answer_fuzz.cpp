// Answers of every dialect, whole and as streams: what is made of one is read as the same answer again.

#include "gateway/canonical_output.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/normal_form.hpp"
#include "gateway/observations.hpp"
#include "gateway/upstream_facts.hpp"
#include "replay/answer_body.hpp"
#include "replay/answer_stream.hpp"
#include "replay/answer_text.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using namespace gateway;

/// What is made here is in proportion to what it was made of.
bool is_bounded(std::size_t made, std::size_t of) { return made <= (128u << 10) + 80 * of; }

void check_comparable(Api api, std::string_view stream) {
  const NormalForm form = {NormalStep::width, NormalStep::nfc, NormalStep::whitespace};
  const auto answer = comparable_answer(api, true, stream, form);
  VERBATIM_CHECK(answer.has_value());
  // It can be compared, and is the same as itself.
  const auto itself = compare_answers(answer, answer, form);
  VERBATIM_CHECK(itself.result == Observations::Result::same);
  VERBATIM_CHECK(itself.normal_result == Observations::Result::same);
}

void check_normal_form(std::string_view text) {
  for (const NormalForm& form :
       {NormalForm{}, NormalForm{NormalStep::width}, NormalForm{NormalStep::nfc},
        NormalForm{NormalStep::whitespace},
        NormalForm{NormalStep::width, NormalStep::nfc, NormalStep::whitespace}}) {
    const std::string once = normalized(std::string(text), form);
    VERBATIM_CHECK(normalized(once, form) == once);
    VERBATIM_CHECK(is_utf8(text) ? is_utf8(once) : once == text);
  }
}

void check_openai(Api api, std::string_view body) {
  if (const auto whole = openai_whole_of(api, body)) {
    VERBATIM_CHECK(is_json(*whole));
    VERBATIM_CHECK(is_bounded(whole->size(), body.size()));
    check_comparable(api, body);
    // A whole answer that was made here is an answer, and its stream is the same answer.
    const auto stream = openai_stream_of(api, *whole, true);
    if (stream) VERBATIM_CHECK(openai_whole_of(api, *stream).has_value());
  }
  if (const auto stream = openai_stream_of(api, body, true)) {
    VERBATIM_CHECK(stream->ends_with("data: [DONE]\n\n"));
    VERBATIM_CHECK(is_bounded(stream->size(), body.size()));
    (void)openai_whole_of(api, *stream);
  }
}

void check_anthropic(std::string_view body) {
  if (const auto whole = anthropic_whole_of(body)) {
    VERBATIM_CHECK(is_json(*whole));
    VERBATIM_CHECK(is_bounded(whole->size(), body.size()));
    check_comparable(Api::anthropic_messages, body);
  }
  if (const auto stream = anthropic_stream_of(body)) {
    VERBATIM_CHECK(is_bounded(stream->size(), body.size()));
    VERBATIM_CHECK(anthropic_whole_of(*stream).has_value());
  }
}

void check_replay(Api api, const std::string& body) {
  (void)replay::beside_in_stream(api, body);
  if (const auto whole = replay::whole_answer(api, body)) {
    if (const auto choices = replay::answer_choices(api, *whole)) {
      VERBATIM_CHECK(choices->size() <= body.size());
    }
  }
  if (const auto text = replay::read_answer_text(api, body)) {
    VERBATIM_CHECK(text->tokens.size() <= body.size());
  }
}

void run(std::string_view input) {
  const std::string body(input);
  for (const Api api : {Api::openai_chat, Api::openai_completions}) {
    check_openai(api, input);
    check_replay(api, body);
  }
  check_anthropic(input);
  check_normal_form(input);
  check_replay(Api::anthropic_messages, body);
  check_replay(Api::openai_responses, body);
  (void)comparable_answer(Api::openai_responses, false, input);
  for (const auto& [name, value] : facts_in("/v1/models", input)) {
    VERBATIM_CHECK(is_utf8(name) && is_utf8(value));
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":{"content":[{"token":"Hi","logprob":-0.5,"top_logprobs":[{"token":"Hi","logprob":-0.5}]}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}})",
      R"({"id":"c","object":"text_completion","choices":[{"index":0,"text":" a","logprobs":{"tokens":[" a"],"token_logprobs":[-1.5],"top_logprobs":[{" a":-1.5}]},"finish_reason":"length"}]})",
      R"({"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}},{"type":"thinking","thinking":"x","signature":"s"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}})",
      R"({"id":"r","object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}]})",
      "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":"
      "\"\"}}]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{"
      "\"index\":1,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":{\"content\":"
      "[{\"token\":\"Hi\"}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
      "data: {\"choices\":[{\"index\":1,\"text\":\"a\"},{\"index\":0,\"text\":\"b\"}]}\n\n",
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":"
      "{\"input_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":"
      "\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
      "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
      "\"text\":\"Hi\"}}\n\ndata: "
      "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
      "\"input_json_delta\",\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"message_delta\","
      "\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":3}}\n\n",
      R"({"object":"list","data":[{"id":"m","created":1,"owned_by":"x","max_model_len":4096}],"version":"0.1"})",
  };
}

const Registration kAnswer({"answer",
                            run,
                            seeds,
                            {"\"index\":",
                             "\"delta\":{",
                             "\"choices\":[{",
                             "\"tool_calls\":[{",
                             "\"content\":",
                             "data: ",
                             "\n\n",
                             "[DONE]",
                             "null",
                             "1e300",
                             "-1",
                             "18446744073709551615",
                             "\"type\":\"message\"",
                             "\"type\":\"content_block_delta\"",
                             "\"type\":\"tool_use\"",
                             "\"logprobs\":{",
                             "\"message\":",
                             "\"partial_json\":\"",
                             "citations_delta",
                             "\"usage\":"}});

}  // namespace

}  // namespace verbatim::fuzz
