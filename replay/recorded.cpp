#include "replay/recorded.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace verbatim::replay {

namespace {

Error malformed(const std::string& what) {
  return {Errc::invalid_input, what, "response.tokens", ""};
}

/// A number that the record holds as a decimal string. `fallback` when the member is absent.
template <class Number>
Result<Number> number_at(const Json& sampling, const char* name, Number fallback) {
  const auto found = sampling.find(name);
  if (found == sampling.end()) return fallback;
  if (!found->is_string()) return malformed(std::string("sampling.") + name + " is not a string");
  const auto& text = found->get_ref<const std::string&>();
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(static_cast<double>(value))) {
    return malformed(std::string("sampling.") + name + " is not a number");
  }
  return value;
}

Result<std::vector<local_engine::TokenId>> ids_at(const Json& choice, const char* name) {
  const auto found = choice.find(name);
  if (found == choice.end() || !found->is_array()) return malformed(std::string("no ") + name);
  std::vector<local_engine::TokenId> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_integer() || id < 0 ||
        id > std::numeric_limits<local_engine::TokenId>::max()) {
      return malformed(std::string(name) + " holds something that is no token id");
    }
    ids.push_back(id.get<local_engine::TokenId>());
  }
  return ids;
}

Result<local_engine::SamplingParams> sampling_of(const Json& json) {
  local_engine::SamplingParams params;
  const auto read = [&](auto& field, const char* name) -> Result<void> {
    const auto value = number_at(json, name, field);
    if (!value) return value.error();
    field = *value;
    return {};
  };
  for (const Result<void>& done :
       {read(params.temperature, "temperature"), read(params.seed, "seed"),
        read(params.choice, "choice"), read(params.top_k, "top_k"), read(params.top_p, "top_p"),
        read(params.min_p, "min_p"), read(params.repetition_penalty, "repetition_penalty"),
        read(params.frequency_penalty, "frequency_penalty"),
        read(params.presence_penalty, "presence_penalty")}) {
    if (!done) return done.error();
  }
  const auto bias = json.find("logit_bias");
  if (bias != json.end() && bias->is_object()) {
    for (const auto& [token, value] : bias->items()) {
      local_engine::TokenId id = 0;
      const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), id);
      if (error != std::errc() || end != token.data() + token.size()) {
        return malformed("sampling.logit_bias has a key that is no token id");
      }
      const auto amount = number_at(*bias, token.c_str(), 0.0);
      if (!amount) return amount.error();
      params.logit_bias[id] = *amount;
    }
  }
  return params;
}

Result<RecordedChoice> choice_of(const Json& json) {
  if (!json.is_object()) return malformed("a choice is not an object");
  RecordedChoice choice;
  auto prompt = ids_at(json, "prompt_ids");
  if (!prompt) return prompt.error();
  choice.request.prompt_ids = std::move(*prompt);
  auto output = ids_at(json, "output_ids");
  if (!output) return output.error();
  choice.output_ids = std::move(*output);
  for (const Json& digest : json.value("row_digest8", Json::array())) {
    if (!digest.is_string()) return malformed("row_digest8 holds something that is no text");
    choice.row_digest8.push_back(digest.get<std::string>());
  }
  if (!choice.row_digest8.empty() && choice.row_digest8.size() != choice.output_ids.size())
    return malformed("there are not as many row digests as tokens");
  const auto sampling = sampling_of(json.value("sampling", Json::object()));
  if (!sampling) return sampling.error();
  choice.request.sampling = *sampling;
  choice.request.tokens_max = static_cast<std::uint32_t>(choice.output_ids.size());
  const auto ignore_eos = json.find("ignore_eos");
  choice.request.ignore_eos =
      ignore_eos != json.end() && ignore_eos->is_boolean() && ignore_eos->get<bool>();
  choice.finish = text_at(json, {"finish"});
  choice.logits_digest = text_at(json, {"logits_digest"});
  return choice;
}

/// What one leaf lacks of what a replay needs; "" if nothing.
std::string lack_of(const Json& leaf) {
  const auto capture = leaf.find("capture");
  if (capture == leaf.end() || !capture->is_object()) return "";
  if (const std::string level = text_at(*capture, {"level"}); !level.empty()) {
    return "its capture level is '" + level + "' (rule '" + text_at(*capture, {"rule"}) + "')";
  }
  for (const char* part : {"redacted", "left_out"}) {
    for (const char* field : {"request.body", "response.body", "response.tokens"}) {
      if (capture->contains(part) && (*capture)[part].contains(field)) {
        return std::string("redaction rules changed what is recorded of it (") + field + ")";
      }
    }
  }
  return "";
}

}  // namespace

std::string text_at(const Json& leaf, std::initializer_list<const char*> path) {
  const Json* at = &leaf;
  for (const char* name : path) {
    if (!at->is_object()) return "";
    const auto found = at->find(name);
    if (found == at->end()) return "";
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

std::int64_t time_at(const Json& leaf) {
  const auto time_us = parse_rfc3339(text_at(leaf, {"time"}));
  return time_us ? *time_us : 0;
}

Result<RecordedLeaves> read_leaves(audit::RecordSource& reader, const Uuid& id) {
  auto leaves = reader.leaves_of(id);
  if (!leaves) return leaves.error();
  std::optional<audit::StoredLeaf> request;
  std::optional<audit::StoredLeaf> response;
  for (audit::StoredLeaf& leaf : *leaves) {
    const std::string type = text_at(leaf.json, {"type"});
    if (type == "request") {
      request = std::move(leaf);
    } else if (type == "response") {
      response = std::move(leaf);
    }
  }
  if (!request) {
    return Error{Errc::not_found, "record " + id.str() + " is not an exchange", "",
                 "see verbatim log list"};
  }
  return RecordedLeaves{std::move(*request), std::move(response)};
}

std::optional<RecordedLeaves> computed_by(audit::RecordSource& reader,
                                          const RecordedLeaves& asked) {
  if (!asked.response) return std::nullopt;
  const auto origin = parse_uuid(text_at(asked.response->json, {"origin"}));
  if (!origin) return asked;
  auto found = read_leaves(reader, *origin);
  if (!found || !found->response) return std::nullopt;
  return std::move(*found);
}

std::string what_was_not_captured(const RecordedLeaves& asked, const RecordedLeaves& computed) {
  for (const RecordedLeaves* record : {&asked, &computed}) {
    for (const Json* leaf : {&record->request.json, &record->response->json}) {
      const std::string lack = lack_of(*leaf);
      if (!lack.empty()) return lack;
    }
  }
  return "";
}

Result<RecordedTokens> parse_tokens(std::string_view tokens_json) {
  const auto json = parse_json(tokens_json);
  if (!json) return malformed(json.error().what);
  if (!json->is_object() || !json->contains("choices") || !(*json)["choices"].is_array() ||
      (*json)["choices"].empty()) {
    return malformed("no choices");
  }
  RecordedTokens tokens;
  const auto now_us = parse_rfc3339(text_at(*json, {"now"}));
  if (!now_us) return malformed("now is not a time");
  tokens.now_us = *now_us;
  for (const Json& item : (*json)["choices"]) {
    auto choice = choice_of(item);
    if (!choice) return choice.error();
    tokens.choices.push_back(std::move(*choice));
  }
  return tokens;
}

}  // namespace verbatim::replay
