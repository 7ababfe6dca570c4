// JSON read in place, and pointers into it: the same members, items and texts as a parser finds.

#include "gateway/body_redaction.hpp"
#include "gateway/json_pointer.hpp"
#include "gateway/json_scan.hpp"
#include "schema/bytes.hpp"
#include "schema/canonical_json.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using namespace gateway;

void check_borrowed(std::string_view part, std::string_view from) {
  VERBATIM_CHECK(part.data() >= from.data());
  VERBATIM_CHECK(part.data() + part.size() <= from.data() + from.size());
}

/// The scanner and the parser, side by side. `value` is what `text` says.
void check_value(std::string_view text, const Json& value) {
  std::size_t count = 0;
  if (value.is_object()) {
    VERBATIM_CHECK(each_member(text, [&](const JsonMember& member) {
      check_borrowed(member.whole, text);
      const auto name = json_string("\"" + std::string(member.key) + "\"");
      VERBATIM_CHECK(name.has_value());
      VERBATIM_CHECK(value.contains(*name));
      check_value(member.value, value[*name]);
      ++count;
    }));
    VERBATIM_CHECK(count == value.size());
  } else if (value.is_array()) {
    VERBATIM_CHECK(each_item(text, [&](std::string_view item) {
      check_borrowed(item, text);
      check_value(item, value[count++]);
    }));
    VERBATIM_CHECK(count == value.size());
  } else if (value.is_string()) {
    VERBATIM_CHECK(json_string(text) == value.get<std::string>());
  } else if (const auto number = json_integer(text)) {
    VERBATIM_CHECK(value == *number);
  }
}

void check_pointer(std::string_view text) {
  const auto pointer = JsonPointer::parse(text);
  if (!pointer) return;
  VERBATIM_CHECK(pointer->str() == text);
  for (const Api api :
       {Api::generic, Api::openai_chat, Api::openai_completions, Api::openai_responses,
        Api::openai_embeddings, Api::anthropic_messages, Api::anthropic_count_tokens,
        Api::gemini_generate_content, Api::gemini_count_tokens, Api::gemini_embed_content}) {
    for (const JsonPointer& in_stream : stream_pointers(api, *pointer)) {
      const auto again = JsonPointer::parse(in_stream.str());
      VERBATIM_CHECK(again.has_value());
      VERBATIM_CHECK(again->steps() == in_stream.steps());
    }
  }
}

void run(std::string_view input) {
  check_pointer(input);
  const bool scanned = is_json(input);
  std::string quoted;
  append_json_string(quoted, input);
  VERBATIM_CHECK(is_json(quoted));
  VERBATIM_CHECK(parse_json(quoted).has_value());
  if (is_utf8(input)) VERBATIM_CHECK(json_string(quoted) == input);
  // Whatever the text is, these end.
  each_member(input, [](const JsonMember&) {});
  each_item(input, [](std::string_view) {});
  (void)json_string(input);
  (void)json_integer(input);
  const auto value = parse_json(input);
  if (!value) return;
  VERBATIM_CHECK(scanned);
  // Blanks around a value are no part of it.
  const std::size_t begin = input.find_first_not_of(" \t\r\n");
  const std::size_t end = input.find_last_not_of(" \t\r\n") + 1;
  check_value(input.substr(begin, end - begin), *value);
}

std::vector<std::string> seeds() {
  return {
      R"({"model":"m","messages":[{"role":"user","content":"\u00e9\ud83d\ude00\n"}],"n":-12,"x":1.5e3})",
      R"([ "a" , {"b" : [ ] , "c" : { } } , null , true , 9223372036854775807 , -9223372036854775808 ])",
      R"({"a\"b":"\\","":""})",
      "/choices/*/message/content",
      "/messages/*/content/*/text",
      "/content/0/a~1b~0c",
  };
}

const Registration kJsonScan({"json_scan",
                              run,
                              seeds,
                              {"\\u", "\\ud83d", "\\ude00", "null", "\":", "/*", "~0", "~1",
                               "/choices/*/", "/content/*/text", "9223372036854775808"}});

}  // namespace

}  // namespace verbatim::fuzz
