// How whole answers and the events of their streams name the same things.

#include "gateway/body_redaction.hpp"

#include <span>

namespace verbatim::gateway {

namespace {

using Steps = std::vector<std::string>;

JsonPointer joined(Steps first, std::span<const std::string> rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return JsonPointer(std::move(first));
}

bool begins(const Steps& steps, std::size_t at, std::string_view name) {
  return at < steps.size() && (steps[at] == name || steps[at] == "*");
}

void add_chat(const Steps& steps, std::vector<JsonPointer>& out) {
  if (!begins(steps, 0, "choices") || !begins(steps, 2, "message")) return;
  Steps delta = steps;
  delta[2] = "delta";
  out.emplace_back(std::move(delta));
}

void add_messages(const Steps& steps, std::vector<JsonPointer>& out) {
  out.push_back(joined({"message"}, steps));
  out.push_back(joined({"delta"}, steps));  // of a message_delta
  if (!begins(steps, 0, "content")) return;
  const std::span<const std::string> inner(steps.data() + std::min<std::size_t>(2, steps.size()),
                                           steps.data() + steps.size());
  out.push_back(joined({"content_block"}, inner));
  out.push_back(joined({"delta"}, inner));
  if (begins(steps, 2, "citations"))
    out.push_back(
        joined({"delta", "citation"}, inner.subspan(std::min<std::size_t>(2, inner.size()))));
  if (inner.empty() || begins(steps, 2, "input"))
    out.push_back(joined({"delta", "partial_json"}, {}));
}

/// Events of the Responses API speak of a part of `output` at several depths, and deltas do not say which member of it
/// they are of: whatever touches `output` takes all of their text out.
void add_responses(const Steps& steps, std::vector<JsonPointer>& out) {
  out.push_back(joined({"response"}, steps));
  if (!begins(steps, 0, "output")) return;
  for (const char* name : {"item", "part", "delta", "text", "arguments", "refusal", "input", "code",
                           "annotation", "partial_image_b64", "transcript", "logprobs"}) {
    out.push_back(joined({name}, {}));
  }
}

}  // namespace

JsonPointer answer_pointer(const JsonPointer& pointer) {
  Steps steps = pointer.steps();
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const bool named_within = steps[i - 1] == "choices" || steps[i - 1] == "tool_calls";
    if (named_within && steps[i].find_first_not_of("0123456789") == std::string::npos)
      steps[i] = "*";
  }
  return JsonPointer(std::move(steps));
}

std::vector<JsonPointer> stream_pointers(Api api, const JsonPointer& pointer) {
  std::vector<JsonPointer> out{pointer};
  // How the client wrote the path may hide which API it is.
  const auto is = [api](Api one) { return api == one || api == Api::generic; };
  if (is(Api::openai_chat)) add_chat(pointer.steps(), out);
  if (is(Api::anthropic_messages)) add_messages(pointer.steps(), out);
  if (is(Api::openai_responses)) add_responses(pointer.steps(), out);
  return out;
}

}  // namespace verbatim::gateway
