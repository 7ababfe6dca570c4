#include "replay/verdict.hpp"

#include <array>
#include <charconv>

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
  }
  return "NOT_REPLAYABLE";
}

namespace {

std::string decimal(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
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
                      {"method", verdict.method},
                      {"tokens", verdict.tokens}};
  if (verdict.origin) json["origin"] = verdict.origin->str();
  if (verdict.engine) {
    json["engine"] = {{"profile", verdict.engine->profile},
                      {"backend", verdict.engine->backend},
                      {"build", verdict.engine->build},
                      {"weights_sha256", verdict.engine->weights_sha256}};
  }
  json["tokens_per_s"] =
      verdict.seconds > 0 ? static_cast<double>(verdict.tokens) / verdict.seconds : 0.0;
  return json;
}

Json verdict_fields(const Verdict& verdict) {
  Json fields = {{"record", verdict.record.str()},
                 {"request", verdict.request_index},
                 {"verdict", verdict_name(verdict.kind)},
                 {"method", verdict.method},
                 {"tokens", verdict.tokens}};
  if (verdict.response_index) fields["response"] = *verdict.response_index;
  if (!verdict.reason.empty()) fields["reason"] = verdict.reason;
  if (verdict.origin) fields["origin"] = verdict.origin->str();
  if (verdict.position) fields["position"] = *verdict.position;
  if (verdict.position) fields["choice"] = verdict.choice;
  if (verdict.character) fields["char"] = *verdict.character;
  if (verdict.margin) fields["margin"] = decimal(*verdict.margin);
  if (verdict.deficit) fields["deficit"] = decimal(*verdict.deficit);
  if (verdict.expected) fields["expected"] = *verdict.expected;
  if (verdict.got) fields["got"] = *verdict.got;
  if (verdict.engine) {
    fields["engine"] = {{"profile", verdict.engine->profile},
                        {"backend", verdict.engine->backend},
                        {"build", verdict.engine->build},
                        {"weights_sha256", verdict.engine->weights_sha256}};
  }
  return fields;
}

}  // namespace verbatim::replay
