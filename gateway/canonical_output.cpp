#include "gateway/canonical_output.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/sse.hpp"

#include <algorithm>
#include <optional>

namespace verbatim::gateway {

namespace {

/// The stored head, without what is only true of the exchange that it was made for.
ResponseHead stored_head(const StoredAnswer& stored) {
  ResponseHead head;
  head.status = stored.response.value("http_status", 200);
  head.reason = "OK";
  each_item(stored.headers, [&](std::string_view pair) {
    std::vector<std::string> both;
    each_item(pair, [&](std::string_view text) { both.push_back(json_string(text).value_or("")); });
    if (both.size() == 2) head.fields.add(both[0], both[1]);
  });
  for (const std::string_view name :
       {"content-length", "transfer-encoding", "connection", "keep-alive", "set-cookie", "date",
        "x-verbatim-record", "x-verbatim-cache"}) {
    head.fields.remove(name);
  }
  std::erase_if(head.fields.all(), [](const Field& field) {
    return field.name.find("ratelimit") != std::string::npos;  // long past
  });
  return head;
}

/// None if the leaf does not tell: the options were more than the known ones.
std::optional<bool> stored_include_usage(const StoredAnswer& stored) {
  const auto in_body = stored.request.find("params_in_body");
  if (in_body != stored.request.end() && in_body->is_array() &&
      std::find(in_body->begin(), in_body->end(), "stream_options") != in_body->end())
    return std::nullopt;
  const auto params = stored.request.find("params");
  if (params == stored.request.end() || !params->is_object()) return false;
  const auto options = params->find("stream_options");
  if (options == params->end() || !options->is_string()) return false;
  return read_request(Api::openai_chat, R"({"stream_options":)" + options->get<std::string>() + "}")
      .include_usage;
}

/// A whole answer made of a stream that told no usage gets the usage that the record knows; if it
/// knows none, the answer says nothing of it.
std::string with_usage(Api api, std::string whole, const Json& response) {
  const auto usage = response.find("usage");
  bool has_usage = false;
  each_member(whole, [&](const JsonMember& member) {
    has_usage = has_usage || (member.key == "usage" && member.value != "null");
  });
  if (has_usage || usage == response.end() || api == Api::anthropic_messages) return whole;
  const auto input = usage->value("input_tokens", std::int64_t{-1});
  const auto output = usage->value("output_tokens", std::int64_t{-1});
  if (input < 0 || output < 0) return whole;
  whole.pop_back();  // the closing brace: the text was made here, without blanks
  return whole + R"(,"usage":{"prompt_tokens":)" + std::to_string(input) +
         R"(,"completion_tokens":)" + std::to_string(output) + R"(,"total_tokens":)" +
         std::to_string(input + output) + "}}";
}

void set_content_type(ResponseHead& head, std::string_view type) {
  head.fields.remove("content-type");
  head.fields.add("content-type", type);
}

}  // namespace

Result<ShapedAnswer> answer_in_shape(Api api, const StoredAnswer& stored, const AnswerShape& shape,
                                     std::size_t decoded_bytes_max) {
  ShapedAnswer answer{stored_head(stored), {}};
  const bool stored_stream =
      answer.head.fields.get("content-type").starts_with("text/event-stream");
  const std::string coding(answer.head.fields.get("content-encoding"));
  const bool same_options = !shape.stream || api == Api::anthropic_messages ||
                            stored_include_usage(stored) == shape.include_usage;
  const bool same_shape = stored_stream == shape.stream && same_options;
  if (same_shape && (coding.empty() || has_word(shape.accept_encoding, coding))) {
    answer.body = stored.body;
    return answer;
  }
  auto plain = decode_content(coding, stored.body, decoded_bytes_max);
  if (!plain) return plain.error();
  answer.head.fields.remove("content-encoding");
  if (same_shape) {
    answer.body = std::move(*plain);
    return answer;
  }
  // By way of the whole answer: a stream with other options is a stream of the same answer.
  Result<std::string> whole = std::string();
  if (!stored_stream) {
    whole = std::move(*plain);
  } else if (api == Api::anthropic_messages) {
    whole = anthropic_whole_of(*plain);
  } else {
    whole = openai_whole_of(api, *plain);
  }
  if (!whole) return whole.error();
  if (shape.stream) {
    auto stream = api == Api::anthropic_messages
                      ? anthropic_stream_of(*whole)
                      : openai_stream_of(api, *whole, shape.include_usage);
    if (!stream) return stream.error();
    answer.body = std::move(*stream);
    set_content_type(answer.head, "text/event-stream; charset=utf-8");
  } else {
    answer.body = with_usage(api, std::move(*whole), stored.response);
    set_content_type(answer.head, "application/json");
  }
  return answer;
}

}  // namespace verbatim::gateway
