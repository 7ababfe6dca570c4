#include "gateway/observations.hpp"

#include "gateway/canonical_output.hpp"
#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"

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

std::uint64_t& of_result(Observations::Result result, std::uint64_t& same, std::uint64_t& different,
                         std::uint64_t& incomparable) {
  if (result == Observations::Result::same) return same;
  return result == Observations::Result::different ? different : incomparable;
}

Json digests_of(const ComparableAnswer& answer, bool in_normal_form) {
  Json out = {{"sha256", sha256(answer.raw).hex()}};
  if (in_normal_form) out["normal_sha256"] = sha256(answer.normal).hex();
  return out;
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

void Observations::count(std::string_view model, const Comparison& comparison) {
  auto found = by_model_.find(model);
  if (found == by_model_.end()) {
    const bool room = by_model_.size() < kModelsMax;
    found = by_model_.try_emplace(std::string(room ? model : "other")).first;
  }
  Counts& counts = found->second;
  ++of_result(comparison.result, counts.same, counts.different, counts.incomparable);
  if (comparison.form.empty()) return;
  ++of_result(comparison.normal_result, counts.normal_same, counts.normal_different,
              counts.normal_incomparable);
}

std::optional<ComparableAnswer> comparable_answer(Api api, bool stream, std::string_view body,
                                                  const NormalForm& form) {
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
  auto raw = canonicalize(json->dump(), Numbers::literal);
  if (!raw) return std::nullopt;
  ComparableAnswer answer{*raw, *raw};
  if (!form.empty()) {
    normalize_texts(*json, form);
    answer.normal = canonicalize(json->dump(), Numbers::literal).value();
  }
  return answer;
}

Observations::Comparison compare_answers(const std::optional<ComparableAnswer>& canonical,
                                         const std::optional<ComparableAnswer>& answer,
                                         const NormalForm& form) {
  using Result = Observations::Result;
  Observations::Comparison out;
  out.form = form;
  if (!canonical || !answer) return out;
  const auto result = [](const std::string& a, const std::string& b) {
    return a == b ? Result::same : Result::different;
  };
  out.result = result(canonical->raw, answer->raw);
  out.normal_result = result(canonical->normal, answer->normal);
  out.digests = verbatim::canonical(Json{{"canonical", digests_of(*canonical, !form.empty())},
                                         {"answer", digests_of(*answer, !form.empty())}});
  return out;
}

}  // namespace verbatim::gateway
