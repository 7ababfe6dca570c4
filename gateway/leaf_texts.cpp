#include "gateway/leaf_texts.hpp"

#include "gateway/json_scan.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace verbatim::gateway {

namespace {

/// Of texts and of what is made of them: even a number says something here.
constexpr std::array<std::string_view, 4> kTexts = {"stop", "stop_sequences", "suffix",
                                                    "logit_bias"};

struct Words {
  std::string_view param;
  std::array<std::string_view, 7> values;
};
constexpr std::array<Words, 3> kWords = {{
    {"reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}},
    {"service_tier", {"auto", "default", "flex", "scale", "priority", "standard_only", "standard"}},
    {"tool_choice", {"auto", "none", "required", "any", "", "", ""}},
}};

constexpr std::array<std::string_view, 10> kQueryWords = {
    "api-version", "alt",     "beta",   "model",   "order",
    "limit",       "include", "intent", "purpose", "stream"};

bool is_one_of(std::string_view value, std::span<const std::string_view> all) {
  return !value.empty() && std::find(all.begin(), all.end(), value) != all.end();
}

bool is_number_or_word(std::string_view value) {
  if (value == "true" || value == "false" || value == "null") return true;
  return !value.empty() && value.size() <= 32 &&
         value.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
}

/// {"type":"text"} and the like: a schema is a text.
bool is_plain_format(std::string_view value) {
  static constexpr std::array<std::string_view, 2> kTypes = {"text", "json_object"};
  bool plain = value.starts_with('{');
  each_member(value, [&](const JsonMember& member) {
    plain =
        plain && member.key == "type" && is_one_of(json_string(member.value).value_or(""), kTypes);
  });
  return plain;
}

/// {"include_usage":true} and the like.
bool is_stream_options(std::string_view value) {
  static constexpr std::array<std::string_view, 2> kNames = {"include_usage",
                                                             "include_obfuscation"};
  bool plain = value.starts_with('{');
  each_member(value, [&](const JsonMember& member) {
    plain = plain && is_one_of(member.key, kNames) &&
            (member.value == "true" || member.value == "false" || member.value == "null");
  });
  return plain;
}

bool is_short_word(std::string_view value) {
  return value.size() <= 64 && std::all_of(value.begin(), value.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

/// "name=value" or a name alone, which may as well be a text.
std::string leaf_parameter(std::string_view parameter) {
  const std::size_t equals = parameter.find('=');
  if (equals == std::string_view::npos) {
    return std::string(is_one_of(parameter, kQueryWords) || parameter.empty() ? parameter : "*");
  }
  const std::string_view name = parameter.substr(0, equals);
  const std::string_view value = parameter.substr(equals + 1);
  const bool stays = value.empty() || value == "REDACTED" || is_number_or_word(value) ||
                     (is_one_of(name, kQueryWords) && is_short_word(value));
  std::string out(is_short_word(name) ? name : "*");
  return out.append("=").append(stays ? value : "*");
}

}  // namespace

bool is_leaf_param(std::string_view name, std::string_view value) {
  if (is_one_of(name, kTexts)) return false;
  if (is_number_or_word(value)) return true;
  if (name == "response_format") return is_plain_format(value);
  if (name == "stream_options") return is_stream_options(value);
  return std::any_of(kWords.begin(), kWords.end(), [&](const Words& words) {
    return words.param == name && is_one_of(value, words.values);
  });
}

std::string leaf_target(std::string_view target) {
  const std::size_t question = std::min(target.find('?'), target.size());
  std::string out(target.substr(0, question));
  for (std::string_view query = target.substr(question); !query.empty();) {
    out.push_back(query.front());  // '?', '&' or ';'
    query.remove_prefix(1);
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    out += leaf_parameter(query.substr(0, end));
    query.remove_prefix(end);
  }
  return out;
}

bool is_traceparent(std::string_view value) {
  if (value.size() != 55) return false;
  for (std::size_t at = 0; at < value.size(); ++at) {
    const bool hyphen = at == 2 || at == 35 || at == 52;
    const bool digit =
        (value[at] >= '0' && value[at] <= '9') || (value[at] >= 'a' && value[at] <= 'f');
    if (hyphen ? value[at] != '-' : !digit) return false;
  }
  return true;
}

}  // namespace verbatim::gateway
