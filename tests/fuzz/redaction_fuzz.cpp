// What redaction rules take out of texts and bodies: edits in order, nothing that was found is left, JSON stays JSON.

#include "gateway/body_parts.hpp"
#include "gateway/body_redaction.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/secret_patterns.hpp"
#include "tests/fuzz/target.hpp"

#include <array>

namespace verbatim::fuzz {

namespace {

using namespace gateway;

RedactionRules make_rules() {
  RedactionRule rule;
  rule.name = "r";
  for (const char* pointer : {"/messages/*/content", "/user", "/input/*/text"}) {
    rule.pointers.push_back(JsonPointer::parse(pointer).value());
  }
  for (const char* pointer : {"/choices/*/message/content", "/content/*/text", "/user"}) {
    rule.answer_pointers.push_back(JsonPointer::parse(pointer).value());
  }
  rule.patterns.set();
  return {std::make_shared<const RedactionRule>(std::move(rule))};
}

void check_secrets(std::string_view text) {
  SecretKinds kinds;
  kinds.set();
  SecretKind kind{};
  std::size_t at = 0;
  for (const SecretSpan& span : find_secrets(text, kinds)) {
    VERBATIM_CHECK(span.begin < span.end && span.end <= text.size());
    if (span.kind != kind) at = 0;
    VERBATIM_CHECK(span.begin >= at);
    kind = span.kind;
    at = span.end;
  }
}

void check_body(const BodyQuestion& question, const RedactionRules& rules,
                const std::vector<TakenText>& taken) {
  const BodyRedaction found = redact_body(question, rules, taken);
  std::size_t at = 0;
  for (const BodyEdit& edit : found.edits) {
    VERBATIM_CHECK(edit.begin >= at && edit.end >= edit.begin);
    VERBATIM_CHECK(edit.end <= question.body.size());
    at = edit.end;
  }
  VERBATIM_CHECK(found.taken.size() <= 64);
  if (found.opaque) return;
  const std::string kept = found.apply(question.body);
  MovedPlaces moved(found.edits);
  std::size_t to = 0;
  for (std::size_t place = 0; place <= question.body.size(); ++place) {
    const std::size_t next = moved(place);
    VERBATIM_CHECK(next == MovedPlaces(found.edits)(place) && next <= kept.size());
    to = next;
  }
  VERBATIM_CHECK(to == kept.size());
  if (is_json(question.body)) VERBATIM_CHECK(is_json(kept));
  VERBATIM_CHECK(found.edits.empty() == (kept == question.body) || !found.edits.empty());
}

void run(std::string_view input) {
  static const RedactionRules kRules = make_rules();
  static const std::vector<TakenText> kTaken = {{"swordfish", "r"}, {"geheim\xC3\xA4", "r"}};
  static constexpr std::array<std::string_view, 4> kTypes = {"application/json", "text/plain",
                                                             "text/event-stream", ""};
  const std::uint8_t choice = take_choice(input);
  check_secrets(input);
  RedactionCounts counts;
  const TextSearch search(kRules, kTaken);
  std::size_t end = 0;
  for (const TextSearch::Hit& hit : search.find(input)) {
    VERBATIM_CHECK(hit.begin >= end && hit.end > hit.begin && hit.end <= input.size());
    end = hit.end;
  }
  const std::string text = search.redact(input, counts);
  VERBATIM_CHECK(text.find("swordfish") == std::string::npos);
  for (const Api api :
       {Api::generic, Api::openai_chat, Api::openai_completions, Api::openai_responses,
        Api::openai_embeddings, Api::anthropic_messages, Api::anthropic_count_tokens,
        Api::gemini_generate_content, Api::gemini_count_tokens, Api::gemini_embed_content}) {
    BodyQuestion question{kTypes[choice & 3], input, api, (choice & 4) != 0, (choice & 8) != 0};
    check_body(question, kRules, kTaken);
  }
}

std::vector<std::string> seeds() {
  const std::string json(1, '\0'), text("\1"), stream("\6"), answer("\4");
  return {
      R"({"model":"m","messages":[{"role":"user","content":"my card is 4111 1111 1111 1111"}],"user":"a@b.example"})" +
          json,
      "call sk-abcdefghijklmnopqrstuvwx0123456789 or swordfish, 4111-1111-1111-1111" + text,
      "-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\n" + text,
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"4111 1111\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" 1111 "
      "1111\"},\"logprobs\":{}}]}\n\n"
      "data: [DONE]\n\n" +
          stream,
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"sword\"}}\n\ndata: {\"type\":\"content_block_delta\","
      "\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"fish\"}}\n\n" +
          stream,
      R"({"choices":[{"message":{"content":"eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK \u0061@b.example"},"logprobs":{"content":[]}}]})" +
          answer,
      "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"sword\"}]}}]},\n{\"candidates\":[{"
      "\"content\":{\"parts\":[{\"text\":\"fish\",\"thought\":false}]},\"index\":0}]}]" +
          answer,
      "{\"a\":\"swordfish\"}\n{\"b\":\"geheim\\u00e4\"}\n" + json,
      R"({"type":"message","content":[{"type":"text","text":"x"},{"type":"tool_use","input":{"k":"swordfish"}}]})" +
          answer,
  };
}

const Registration kRedaction({"redaction",
                               run,
                               seeds,
                               {"swordfish", "4111111111111111", "\xEF\xBC\x94", "\xC2\xA0", "@",
                                ".example", "sk-", "AKIA", "ghp_", "eyJ", "-----BEGIN ",
                                "PRIVATE KEY-----", "\\u0073", "data: ", "\n\n", "\"delta\":{",
                                "\"content\":\"", "\"logprobs\":", "\"index\":"}});

}  // namespace

}  // namespace verbatim::fuzz
