#include "gateway/config_capture.hpp"

#include <algorithm>

namespace verbatim::gateway {

namespace {

bool is_rule_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") ==
             std::string_view::npos &&
         name != "unreadable" && name != "derived";  // what records say beside rules' names
}

bool is_header_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < '\x7F' &&
           std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
  });
}

/// Where a rule is for, and its name, are told in the same way by both kinds.
TomlReader::Keys route_keys(TomlReader& reader, std::string& name, RouteMatch& where) {
  return {{"name", reader.text(name)},
          {"path", reader.text(where.path)},
          {"api", reader.text(where.api)},
          {"upstream", reader.text(where.upstream)}};
}

/// "" if the rule can be used.
std::string fault_of(const std::string& name, const RouteMatch& where) {
  if (!is_rule_name(name)) {
    return "a rule needs a name of lower-case letters, digits, '-' and '_'; 'unreadable' and "
           "'derived' are taken";
  }
  const std::size_t star = where.path.find('*');
  const bool star_inside = star != std::string::npos && star + 1 < where.path.size();
  if (star_inside || (where.path != "*" && !where.path.starts_with('/'))) {
    return "rule '" + name + "': a path begins with '/', and '*' may only end it";
  }
  if (!where.api.empty() && !api_named(where.api)) {
    return "rule '" + name + "': '" + where.api + "' is no API; see route.api of the records";
  }
  return "";
}

void read_pointers(TomlReader& reader, const toml::table& table,
                   const std::vector<std::string>& texts, std::vector<JsonPointer>& to) {
  for (const std::string& text : texts) {
    auto pointer = JsonPointer::parse(text);
    if (!pointer) return reader.take(table, pointer.error());
    to.push_back(std::move(*pointer));
  }
}

}  // namespace

void read_capture_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                       GatewayConfig& config) {
  CaptureRule rule;
  bool has_level = false;
  auto keys = route_keys(reader, rule.name, rule.where);
  const auto level = [&](CaptureLevel value) {
    return [&rule, &has_level, value] {
      rule.level = value;
      has_level = true;
    };
  };
  keys.emplace("level", reader.one_of({{"full", level(CaptureLevel::full)},
                                       {"hashes", level(CaptureLevel::hashes)},
                                       {"metadata", level(CaptureLevel::metadata)}}));
  reader.table(table, key, keys);
  if (const std::string fault = fault_of(rule.name, rule.where); !fault.empty()) {
    return reader.fail(table, fault);
  }
  if (!has_level) return reader.fail(table, "capture rule '" + rule.name + "' needs a level");
  for (const CaptureRule& other : config.capture) {
    if (other.name == rule.name) {
      return reader.fail(table, "capture rule '" + rule.name + "' is there twice");
    }
  }
  config.capture.push_back(std::move(rule));
}

void read_redaction_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                         GatewayConfig& config) {
  RedactionRule rule;
  std::vector<std::string> pointers, answer_pointers, patterns;
  auto keys = route_keys(reader, rule.name, rule.where);
  keys.emplace("pointers", reader.texts(pointers));
  keys.emplace("answer_pointers", reader.texts(answer_pointers));
  keys.emplace("headers", reader.texts(rule.headers));
  keys.emplace("patterns", reader.texts(patterns));
  reader.table(table, key, keys);
  if (const std::string fault = fault_of(rule.name, rule.where); !fault.empty()) {
    return reader.fail(table, fault);
  }
  read_pointers(reader, table, pointers, rule.pointers);
  read_pointers(reader, table, answer_pointers, rule.answer_pointers);
  for (const std::string& name : rule.headers) {
    if (!is_header_name(name)) reader.fail(table, "'" + name + "' is no name of a header");
  }
  for (const std::string& name : patterns) {
    const auto kind = secret_kind_named(name);
    if (!kind) {
      return reader.fail(table, "'" + name + "' is no pattern: card_number, email, api_key");
    }
    rule.patterns.set(static_cast<std::size_t>(*kind));
  }
  if (pointers.empty() && answer_pointers.empty() && rule.headers.empty() && patterns.empty()) {
    return reader.fail(table, "redaction rule '" + rule.name +
                                  "' takes nothing out: it needs pointers, answer_pointers, "
                                  "headers or patterns");
  }
  for (const auto& other : config.redact) {
    if (other->name == rule.name) {
      return reader.fail(table, "redaction rule '" + rule.name + "' is there twice");
    }
  }
  config.redact.push_back(std::make_shared<const RedactionRule>(std::move(rule)));
}

void read_retention_rule(TomlReader& reader, const toml::table& table, const std::string& key,
                         GatewayConfig& config) {
  RetentionRule rule;
  auto& [name, days, basis] = rule.retention;
  auto keys = route_keys(reader, name, rule.where);
  keys.emplace("minimum_days",
               reader.count(days, 1, static_cast<std::int64_t>(audit::kRetentionDaysMax)));
  keys.emplace("basis", reader.text(basis));
  reader.table(table, key, keys);
  if (const std::string fault = fault_of(name, rule.where); !fault.empty()) {
    return reader.fail(table, fault);
  }
  if (days == 0 || basis.empty() || basis.size() > 256) {
    return reader.fail(table, "retention class '" + name +
                                  "' needs minimum_days, and a basis of at most 256 bytes");
  }
  for (const RetentionRule& other : config.retention) {
    const audit::Retention& known = other.retention;
    // One class may be for several routes, and then means the same on all of them.
    if (known.name == name && (known.days != days || known.basis != basis)) {
      return reader.fail(table, "retention class '" + name + "' is there twice, with two meanings");
    }
  }
  config.retention.push_back(std::move(rule));
}

}  // namespace verbatim::gateway
