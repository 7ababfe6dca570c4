// Event streams: the same events in pieces of any size, and what is held back begins a terminal event.

#include "gateway/response_facts.hpp"
#include "gateway/sse.hpp"
#include "schema/canonical_json.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using namespace gateway;

struct Scanned {
  std::vector<EventSpan> events;
  std::size_t free_until = 0;
  bool terminal = false;
};

void take(SseScanner& scanner, std::vector<EventSpan>& into) {
  for (const EventSpan& span : scanner.take_events()) into.push_back(span);
}

Scanned whole(std::string_view stream) {
  SseScanner scanner;
  scanner.push(stream);
  Scanned out{scanner.take_events(), scanner.free_until(), scanner.terminal_seen()};
  return out;
}

Scanned pieces(std::string_view stream, std::uint8_t choice) {
  SseScanner scanner;
  Scanned out;
  std::size_t pushed = 0, free = 0;
  in_pieces(stream, choice, [&](std::string_view piece) {
    scanner.push(piece);
    pushed += piece.size();
    take(scanner, out.events);
    // What was given out cannot be taken back.
    VERBATIM_CHECK(scanner.free_until() >= free);
    free = scanner.free_until();
    VERBATIM_CHECK(free <= pushed);
  });
  out.free_until = scanner.free_until();
  out.terminal = scanner.terminal_seen();
  return out;
}

void check_facts(std::string_view stream, const Scanned& scanned, Api api) {
  ResponseFacts by_event(api), of_stream(api), of_json(api);
  for (const EventSpan& span : scanned.events) {
    by_event.read_event(stream.substr(span.begin, span.end - span.begin));
  }
  of_stream.read_stream(stream);
  of_json.read_json(stream);
  Json a = Json::object(), b = Json::object(), c = Json::object();
  by_event.describe(a);
  of_stream.describe(b);
  of_json.describe(c);
  VERBATIM_CHECK(a == b);
  // They go into leaves, which take no float and no bad UTF-8.
  VERBATIM_CHECK(canonical(a).size() < 65'536 && canonical(c).size() < 65'536);
  VERBATIM_CHECK(by_event.events() == scanned.events.size());
  VERBATIM_CHECK(by_event.data_events() <= by_event.events());
}

void run(std::string_view input) {
  const std::uint8_t choice = take_choice(input);
  const Scanned scanned = whole(input);
  const Scanned cut = pieces(input, choice);
  VERBATIM_CHECK(cut.events.size() == scanned.events.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < scanned.events.size(); ++i) {
    const EventSpan& span = scanned.events[i];
    // Taken between the CR and the LF that end it, an event is shorter by the LF.
    const bool without_lf = cut.events[i].end + 1 == span.end && input[span.end - 1] == '\n' &&
                            input[span.end - 2] == '\r';
    VERBATIM_CHECK(span.begin == cut.events[i].begin);
    VERBATIM_CHECK(span.end == cut.events[i].end || without_lf);
    VERBATIM_CHECK(span.begin >= at && span.end > span.begin && span.end <= input.size());
    at = span.end;
    (void)parse_sse_event(input.substr(span.begin, span.end - span.begin)).data();
  }
  VERBATIM_CHECK(cut.terminal == scanned.terminal);
  VERBATIM_CHECK(cut.free_until == scanned.free_until);
  for (const Api api :
       {Api::generic, Api::openai_chat, Api::openai_completions, Api::openai_responses,
        Api::openai_embeddings, Api::anthropic_messages, Api::anthropic_count_tokens,
        Api::gemini_generate_content, Api::gemini_count_tokens, Api::gemini_embed_content}) {
    check_facts(input, scanned, api);
  }
}

// Texts of several lines: NOLINTBEGIN(bugprone-suspicious-missing-comma)
std::vector<std::string> seeds() {
  return {
      "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},"
      "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n"
      "data: [DONE]\n\n",
      "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\","
      "\"model\":\"x\",\"usage\":{\"input_tokens\":5}}}\r\n\r\n"
      "event: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
      "\"end_turn\"},\"usage\":{\"output_tokens\":7}}\r\n\r\n"
      "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n",
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":"
      "\"r\",\"status\":\"completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n",
      ": comment\n\ndata: a\ndata: b\n\nevent: error\ndata: {\"error\":{\"message\":\"no\"}}\n\n",
      "data:{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}]}\r\rdata\r\r",
      "data: "
      "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]},\"finishReason\":\"STOP\","
      "\"index\":1}],\"usageMetadata\":{\"promptTokenCount\":3,\"thoughtsTokenCount\":1},"
      "\"modelVersion\":\"m\",\"responseId\":\"r\"}\r\n\r\n",
      "[{\"candidates\":[{\"finishReason\":\"STOP\"}]}\n,\r\n{\"promptFeedback\":{\"blockReason\":"
      "\"SAFETY\"}},{\"error\":{\"code\":503}}]",
  };
}
// NOLINTEND(bugprone-suspicious-missing-comma)

const Registration kSse(
    {"sse",
     run,
     seeds,
     {"data: ", "event: ", "\r\n\r\n", "\n\n", "\r\r", "[DONE]", "message_stop", "response.failed",
      "response.incomplete", "\"usage\":{", "\"finish_reason\":\"", "\"index\":", "\"error\":{",
      "\"finishReason\":\"", "\"usageMetadata\":{", "\"candidates\":[{", "[{"}});

}  // namespace

}  // namespace verbatim::fuzz
