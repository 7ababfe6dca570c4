#include "replay/verdict.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace verbatim::replay {

std::string_view verdict_name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::bitwise:
      return "BITWISE";
    case VerdictKind::token_exact:
      return "TOKEN_EXACT";
    case VerdictKind::within_margin:
      return "WITHIN_MARGIN";
    case VerdictKind::diverged:
      return "DIVERGED";
    case VerdictKind::not_replayable:
      return "NOT_REPLAYABLE";
    case VerdictKind::erased:
      return "ERASED";
    case VerdictKind::pruned:
      return "PRUNED";
  }
  return "NOT_REPLAYABLE";
}

std::string decimal(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

Json fingerprint_json(const local_engine::FingerprintAgreement& found) {
  return {{"chunks", found.chunks},
          {"exact", found.exact},
          {"accepted", found.accepted},
          {"values", found.values},
          {"exponent_mismatches", found.exponent_mismatches},
          {"mantissa_mean", decimal(found.mantissa_mean)},
          {"mantissa_median", decimal(found.mantissa_median)}};
}

std::string fingerprint_text(const local_engine::FingerprintAgreement& found) {
  if (found.exact == found.chunks) return "activations: the recorded fingerprint, exactly";
  return "activations: " + std::to_string(found.accepted) + " of " + std::to_string(found.chunks) +
         " chunks within TOPLOC's limits, " + std::to_string(found.exact) +
         " exact; in the worst " + std::to_string(found.exponent_mismatches) + " of " +
         std::to_string(found.values) + " exponents differ, mantissas by " +
         decimal(found.mantissa_mean) + " in the mean and " + decimal(found.mantissa_median) +
         " in the median";
}

std::string hypotheses_text(const std::vector<std::string>& hypotheses) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 6> kWords = {
      {{"weights", "other weights"},
       {"prompt", "another prompt or template"},
       {"sampling", "other sampling parameters"},
       {"edited", "an edited text"},
       {"truncated", "a text that was cut short"},
       {"rounding", "an unlucky near tie"}}};
  std::string text;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const auto word = std::find_if(kWords.begin(), kWords.end(),
                                   [&](const auto& each) { return each.first == hypotheses[i]; });
    text += (i == 0 ? "" : i + 1 == hypotheses.size() ? ", or " : ", ");
    text += word == kWords.end() ? hypotheses[i] : word->second;
  }
  return text;
}

std::optional<float> parsed_decimal(const std::string& text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int badness(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::bitwise:
      return 0;
    case VerdictKind::token_exact:
      return 1;
    case VerdictKind::within_margin:
      return 2;
    case VerdictKind::not_replayable:
      return 3;
    case VerdictKind::erased:
    case VerdictKind::pruned:
      return 4;
    case VerdictKind::diverged:
      return 5;
  }
  return 5;
}

namespace {

Error no_verdict(const char* member) {
  return {Errc::invalid_input, std::string("the verdict's leaf has no proper '") + member + "'", "",
          "verify the log"};
}

std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <class Number>
std::optional<Number> integer_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  // A leaf may come from anybody: what does not fit is not there.
  if (found->is_number_unsigned()) {
    const auto value = found->get<std::uint64_t>();
    return std::in_range<Number>(value) ? std::optional(static_cast<Number>(value)) : std::nullopt;
  }
  const auto value = found->get<std::int64_t>();
  return std::in_range<Number>(value) ? std::optional(static_cast<Number>(value)) : std::nullopt;
}

std::vector<std::string> texts_member(const Json& object, const char* name) {
  std::vector<std::string> texts;
  for (const Json& each : object.value(name, Json::array())) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::optional<float> decimal_member(const Json& object, const char* name) {
  return parsed_decimal(text_member(object, name));
}

Json engine_fields(const ReplayEngine& engine) {
  return {{"profile", engine.profile},
          {"backend", engine.backend},
          {"build", engine.build},
          {"weights_sha256", engine.weights_sha256}};
}

local_engine::FingerprintAgreement fingerprint_of(const Json& fields) {
  const auto count = [&](const char* name) {
    return integer_member<std::size_t>(fields, name).value_or(0);
  };
  return {count("chunks"),
          count("exact"),
          count("accepted"),
          count("values"),
          count("exponent_mismatches"),
          decimal_member(fields, "mantissa_mean").value_or(0),
          decimal_member(fields, "mantissa_median").value_or(0)};
}

template <class T, class Convert>
OrderedJson or_null(const std::optional<T>& value, Convert convert) {
  return value ? OrderedJson(convert(*value)) : OrderedJson();
}

}  // namespace

OrderedJson verdict_json(const Verdict& verdict) {
  const auto same = [](const auto& value) { return value; };
  OrderedJson json = {{"id", verdict.record.str()},
                      {"verdict", verdict_name(verdict.kind)},
                      {"model", verdict.model},
                      {"choice", verdict.choice},
                      {"position", or_null(verdict.position, same)},
                      {"char", or_null(verdict.character, same)},
                      {"margin", or_null(verdict.margin, decimal)},
                      {"expected", or_null(verdict.expected, same)},
                      {"got", or_null(verdict.got, same)},
                      {"deficit", or_null(verdict.deficit, decimal)},
                      {"reason", verdict.reason},
                      {"detail", verdict.detail},
                      {"hypotheses", verdict.hypotheses},
                      {"method", verdict.method},
                      {"tokens", verdict.tokens}};
  if (verdict.choices > 1) json["choices"] = verdict.choices;
  if (verdict.origin) json["origin"] = verdict.origin->str();
  if (verdict.engine) json["engine"] = engine_fields(*verdict.engine);
  if (verdict.claimed_weights) {
    json["weights"] = "claimed";
    json["differing"] = verdict.differing;
  }
  if (!verdict.defaults.empty()) json["defaults"] = verdict.defaults;
  if (verdict.tolerance) {
    json["calibration"] = {{"sha256", verdict.tolerance->calibration_sha256},
                           {"threshold", verdict.tolerance->threshold},
                           {"false_positive_rate", verdict.tolerance->false_positive_rate}};
  }
  if (verdict.environment) {
    json["environment"] = *verdict.environment;
    json["environment_differs"] = verdict.environment_differs;
  }
  if (verdict.fingerprint) json["fingerprint"] = fingerprint_json(*verdict.fingerprint);
  if (!verdict.not_looked_at.empty()) json["not_looked_at"] = verdict.not_looked_at;
  if (verdict.other_weights_named) json["other_weights_named"] = true;
  if (!verdict.explanations.empty()) json["explanations"] = verdict.explanations;
  if (verdict.resumed) json["resumed"] = true;
  if (verdict.leaf) json["leaf"] = *verdict.leaf;
  json["tokens_per_s"] =
      verdict.seconds > 0 ? static_cast<double>(verdict.tokens) / verdict.seconds : 0.0;
  return json;
}

bool leaf_tells_detail(const Verdict& verdict) {
  static constexpr std::array<std::string_view, 4> kOnlyFigures = {"token", "rounding", "logits",
                                                                   "fingerprint"};
  return verdict.kind == VerdictKind::token_exact ||
         std::find(kOnlyFigures.begin(), kOnlyFigures.end(), verdict.reason) != kOnlyFigures.end();
}

Json verdict_fields(const Verdict& verdict) {
  Json fields = {{"record", verdict.record.str()},
                 {"request", verdict.request_index},
                 {"verdict", verdict_name(verdict.kind)},
                 {"method", verdict.method},
                 {"tokens", verdict.tokens}};
  if (verdict.response_index) fields["response"] = *verdict.response_index;
  if (!verdict.reason.empty()) fields["reason"] = verdict.reason;
  if (!verdict.hypotheses.empty()) fields["hypotheses"] = verdict.hypotheses;
  if (leaf_tells_detail(verdict) && !verdict.detail.empty()) fields["detail"] = verdict.detail;
  if (verdict.origin) fields["origin"] = verdict.origin->str();
  if (verdict.position) fields["position"] = *verdict.position;
  if (verdict.position || verdict.choices > 1) fields["choice"] = verdict.choice;
  if (verdict.choices > 1) fields["choices"] = verdict.choices;
  if (verdict.character) fields["char"] = *verdict.character;
  if (verdict.margin) fields["margin"] = decimal(*verdict.margin);
  if (verdict.deficit) fields["deficit"] = decimal(*verdict.deficit);
  if (verdict.expected) fields["expected"] = *verdict.expected;
  if (verdict.got) fields["got"] = *verdict.got;
  if (verdict.engine) fields["engine"] = engine_fields(*verdict.engine);
  if (!verdict.margins.empty()) fields["margins"] = verdict.margins.counts();
  if (verdict.claimed_weights) {
    fields["weights"] = "claimed";
    fields["differing"] = verdict.differing;
  }
  if (!verdict.defaults.empty()) fields["defaults"] = verdict.defaults;
  if (verdict.tolerance) {
    fields["calibration"] = {{"sha256", verdict.tolerance->calibration_sha256},
                             {"threshold", verdict.tolerance->threshold},
                             {"false_positive_rate", verdict.tolerance->false_positive_rate}};
  }
  if (verdict.environment) {
    fields["environment"] = *verdict.environment;
    fields["environment_differs"] = verdict.environment_differs;
  }
  if (verdict.fingerprint) fields["fingerprint"] = fingerprint_json(*verdict.fingerprint);
  if (!verdict.not_looked_at.empty()) fields["not_looked_at"] = verdict.not_looked_at;
  if (!verdict.explanations.empty()) fields["explanations"] = verdict.explanations;
  return fields;
}

Result<Verdict> verdict_of_leaf(const Json& leaf) {
  if (!leaf.is_object()) return no_verdict("type");
  Verdict verdict;
  const auto record = parse_uuid(text_member(leaf, "record"));
  if (!record) return no_verdict("record");
  verdict.record = *record;
  const std::string name = text_member(leaf, "verdict");
  const auto kind = std::find_if(kVerdictKinds.begin(), kVerdictKinds.end(),
                                 [&](VerdictKind each) { return verdict_name(each) == name; });
  if (kind == kVerdictKinds.end()) return no_verdict("verdict");
  verdict.kind = *kind;
  verdict.request_index = integer_member<std::uint64_t>(leaf, "request").value_or(0);
  verdict.response_index = integer_member<std::uint64_t>(leaf, "response");
  verdict.reason = text_member(leaf, "reason");
  verdict.detail = text_member(leaf, "detail");
  verdict.hypotheses = texts_member(leaf, "hypotheses");
  verdict.method = text_member(leaf, "method");
  verdict.tokens = integer_member<std::size_t>(leaf, "tokens").value_or(0);
  verdict.choice = integer_member<std::size_t>(leaf, "choice").value_or(0);
  verdict.choices = integer_member<std::size_t>(leaf, "choices").value_or(1);
  verdict.position = integer_member<std::size_t>(leaf, "position");
  verdict.character = integer_member<std::size_t>(leaf, "char");
  verdict.expected = integer_member<local_engine::TokenId>(leaf, "expected");
  verdict.got = integer_member<local_engine::TokenId>(leaf, "got");
  verdict.margin = decimal_member(leaf, "margin");
  verdict.deficit = decimal_member(leaf, "deficit");
  if (const auto origin = parse_uuid(text_member(leaf, "origin"))) verdict.origin = *origin;
  if (const auto engine = leaf.find("engine"); engine != leaf.end() && engine->is_object()) {
    verdict.engine =
        ReplayEngine{text_member(*engine, "profile"), text_member(*engine, "backend"),
                     text_member(*engine, "build"), text_member(*engine, "weights_sha256")};
  }
  std::size_t margin_class = 0;
  for (const Json& count : leaf.value("margins", Json::array())) {
    if (margin_class == MarginCounts::kClasses) break;
    if (count.is_number_unsigned()) verdict.margins.set(margin_class, count.get<std::uint64_t>());
    ++margin_class;
  }
  verdict.claimed_weights = text_member(leaf, "weights") == "claimed";
  verdict.defaults = text_member(leaf, "defaults");
  verdict.differing = integer_member<std::size_t>(leaf, "differing").value_or(0);
  if (const auto by = leaf.find("calibration"); by != leaf.end() && by->is_object()) {
    verdict.tolerance = Tolerance{text_member(*by, "sha256"), text_member(*by, "threshold"),
                                  text_member(*by, "false_positive_rate")};
  }
  verdict.environment = integer_member<std::uint64_t>(leaf, "environment");
  verdict.environment_differs = texts_member(leaf, "environment_differs");
  verdict.not_looked_at = texts_member(leaf, "not_looked_at");
  if (const auto found = leaf.find("fingerprint"); found != leaf.end() && found->is_object())
    verdict.fingerprint = fingerprint_of(*found);
  for (const Json& each : leaf.value("explanations", Json::array())) {
    if (each.is_object()) verdict.explanations.push_back(each);
  }
  verdict.resumed = true;
  return verdict;
}

float smallest_margin(const Verdict& verdict) {
  float smallest = std::numeric_limits<float>::infinity();
  for (const TracedToken& token : verdict.trace) smallest = std::min(smallest, token.margin);
  return smallest;
}

}  // namespace verbatim::replay
