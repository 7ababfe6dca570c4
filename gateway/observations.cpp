#include "gateway/observations.hpp"

#include "gateway/canonical_output.hpp"
#include "schema/canonical_json.hpp"

#include <array>
#include <iterator>

namespace verbatim::gateway {

namespace {

constexpr std::array<std::string_view, 10> kIncidental = {
    "id",          "created", "system_fingerprint", "service_tier", "usage", "obfuscation",
    "tool_use_id", "call_id", "logprobs",           "container"};

/// What is null is as good as absent: answers and streams differ in which of the two they say.
void erase_incidental(Json& value) {
  if (value.is_object()) {
    for (const std::string_view name : kIncidental) value.erase(std::string(name));
    for (auto member = value.begin(); member != value.end();) {
      member = member->is_null() ? value.erase(member) : std::next(member);
    }
  }
  if (value.is_structured()) {
    for (auto& each : value) erase_incidental(each);
  }
}

}  // namespace

std::string_view observation_name(Observations::Result result) {
  switch (result) {
    case Observations::Result::same:
      return "same";
    case Observations::Result::different:
      return "different";
    case Observations::Result::incomparable:
      return "incomparable";
  }
  return "";
}

bool Observations::take_turn(std::uint32_t percent) {
  due_ += percent;
  if (due_ < 100) return false;
  due_ -= 100;
  return true;
}

void Observations::count(std::string_view model, Result result) {
  auto found = by_model_.find(model);
  if (found == by_model_.end()) {
    const bool room = by_model_.size() < kModelsMax;
    found = by_model_.try_emplace(std::string(room ? model : "other")).first;
  }
  Counts& counts = found->second;
  ++(result == Result::same        ? counts.same
     : result == Result::different ? counts.different
                                   : counts.incomparable);
}

std::optional<std::string> comparable_answer(Api api, bool stream, std::string_view body) {
  std::string whole(body);
  if (stream) {
    auto joined =
        api == Api::anthropic_messages ? anthropic_whole_of(body) : openai_whole_of(api, body);
    if (!joined) return std::nullopt;
    whole = std::move(*joined);
  }
  auto json = parse_json(whole);
  if (!json || !json->is_object()) return std::nullopt;
  erase_incidental(*json);
  return json->dump();
}

}  // namespace verbatim::gateway
