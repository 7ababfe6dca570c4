#include "gateway/header_rules.hpp"

#include "gateway/dialect.hpp"
#include "gateway/json_scan.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <array>

namespace verbatim::gateway {

namespace {

constexpr std::string_view kRedacted = "REDACTED";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// How a browser, which can set no header on a WebSocket, shows its key to OpenAI's Realtime API.
constexpr std::string_view kWebSocketProtocols = "sec-websocket-protocol";
constexpr std::string_view kKeyProtocol = "openai-insecure-api-key.";

/// The key among subprotocols; "" if there is none.
std::string_view key_protocol(std::string_view list) {
  while (!list.empty()) {
    const std::string_view item = take_list_item(list);
    if (item.starts_with(kKeyProtocol)) return item.substr(kKeyProtocol.size());
  }
  return {};
}

/// Takes the items with a key out of a list of subprotocols.
void remove_key_protocol(std::string& list) {
  std::string out;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view item = take_list_item(rest);
    if (item.empty() || item.starts_with(kKeyProtocol)) continue;
    out.append(out.empty() ? "" : ", ").append(item);
  }
  list = std::move(out);
}

bool starts_with_word(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_word(text.substr(0, prefix.size()), prefix);
}

bool contains_word(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return lower(a) == b; }) != text.end();
}

bool is_hop_by_hop(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "connection", "keep-alive",    "te", "trailer", "transfer-encoding",
      "upgrade",    "http2-settings"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view hop) { return same_word(name, hop); }) ||
         starts_with_word(name, "proxy-");
}

/// What Connection may not take away, whatever it names (RFC 9110 section 7.6.1): fields that say where the body ends, what
/// it is, and whom it is for. Where one line of code leaves a length out and another counts on it, one request becomes two.
bool is_for_all_recipients(std::string_view name) {
  return starts_with_word(name, "content-") || same_word(name, "host");
}

/// How Google's API takes a credential in the query.
constexpr std::array<std::string_view, 2> kQueryCredentials = {"key", "access_token"};

/// The name of a query parameter as the server will read it.
std::string decoded_name(std::string_view name) {
  std::string out = percent_decoded(name);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

/// Visits the parameters of a query, each with the separator behind it.
template <class Visit>
void each_parameter(std::string_view query, Visit visit) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    const std::size_t next = std::min(end + 1, query.size());
    visit(query.substr(0, end), query.substr(end, next - end));
    query.remove_prefix(next);
  }
}

/// Upstreams tell where to send the rest of a file, and clients where they come from, in URLs.
bool is_url_with_query(std::string_view value) {
  const std::size_t question = value.find('?');
  return question != std::string_view::npos &&
         value.substr(0, question).find("://") != std::string_view::npos;
}

bool is_secret_parameter(std::string_view raw_name) {
  const std::string name = decoded_name(raw_name);
  // A harmless value hidden costs little, a secret in a leaf is there for ever.
  static constexpr std::array<std::string_view, 4> kWhole = {"code", "sig", "pwd", "sas"};
  static constexpr std::array<std::string_view, 9> kParts = {
      "key", "token", "secret", "password", "credential", "signature", "auth", "jwt", "session"};
  return std::find(kWhole.begin(), kWhole.end(), name) != kWhole.end() ||
         std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

/// Without the user name and password of a URL, or of the authority that CONNECT is for: as they come, refused or not.
std::string without_userinfo(std::string_view target) {
  if (target.starts_with('/')) return std::string(target);
  const std::size_t scheme = target.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t at = target.substr(0, target.find_first_of("/?#", begin)).rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(target);
  return std::string(target.substr(0, begin)).append(kRedacted).append(target.substr(at));
}

}  // namespace

void strip_hop_by_hop(Fields& fields) {
  // What Connection names is hop-by-hop too. Copied: the fields are about to go.
  std::string named;
  for (const Field& field : fields.all()) {
    if (same_word(field.name, "connection")) named += field.value + ",";
  }
  std::erase_if(fields.all(), [&](const Field& field) {
    return is_hop_by_hop(field.name) ||
           (!named.empty() && has_word(named, field.name) && !is_for_all_recipients(field.name));
  });
}

std::string_view credential_of(const Fields& fields) {
  std::string_view authorization = fields.get("authorization");
  if (!authorization.empty()) {
    const std::size_t space = authorization.find(' ');
    if (space != std::string_view::npos) authorization.remove_prefix(space + 1);
    while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
    return authorization;
  }
  for (const std::string_view name : {"x-api-key", "api-key", "x-goog-api-key"}) {
    if (const std::string* value = fields.find(name); value != nullptr) return *value;
  }
  for (const Field& field : fields.all()) {
    if (!same_word(field.name, kWebSocketProtocols)) continue;
    if (const std::string_view key = key_protocol(field.value); !key.empty()) return key;
  }
  return {};
}

std::string credential_of(const RequestHead& head) {
  const std::string_view shown = credential_of(head.fields);
  if (!shown.empty() || dialect_of(head) != Dialect::gemini) return std::string(shown);
  for (const std::string_view name : kQueryCredentials) {
    if (std::string value = query_parameter(head.target, name); !value.empty()) return value;
  }
  return "";
}

std::string without_credentials(const RequestHead& head) {
  const std::size_t question = head.target.find('?');
  if (question == std::string::npos || dialect_of(head) != Dialect::gemini) return head.target;
  const std::string_view target = head.target;
  std::string out(target.substr(0, question));
  char separator = '?';
  each_parameter(target.substr(question + 1), [&](std::string_view one, std::string_view behind) {
    const std::string name = decoded_name(one.substr(0, one.find('=')));
    const bool taken = std::find(kQueryCredentials.begin(), kQueryCredentials.end(), name) !=
                       kQueryCredentials.end();
    if (taken) return;
    out.append(1, separator).append(one);
    separator = behind.empty() ? '&' : behind.front();
  });
  return out;
}

void remove_credentials(Fields& fields) {
  for (const std::string_view name : {"authorization", "x-api-key", "api-key", "x-goog-api-key"}) {
    fields.remove(name);
  }
  for (Field& field : fields.all()) {
    if (same_word(field.name, kWebSocketProtocols)) remove_key_protocol(field.value);
  }
  std::erase_if(fields.all(), [](const Field& field) {
    return field.value.empty() && same_word(field.name, kWebSocketProtocols);
  });
}

bool is_secret_field(std::string_view name) {
  if (starts_with_word(name, "x-ratelimit") || starts_with_word(name, "anthropic-ratelimit")) {
    return false;  // limits of tokens, not tokens
  }
  if (same_word(name, kWebSocketProtocols)) return true;  // may hold a key: credential_of()
  static constexpr std::array<std::string_view, 9> kParts = {
      "auth", "cookie", "key", "token", "secret", "password", "credential", "signature", "session"};
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return contains_word(name, part); });
}

std::string redacted_target(std::string_view raw_target) {
  const std::string target = without_userinfo(raw_target);
  const std::size_t question = target.find('?');
  if (question == std::string::npos) return target;
  std::string out = target.substr(0, question + 1);
  each_parameter(std::string_view(target).substr(question + 1), [&](std::string_view one,
                                                                    std::string_view behind) {
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && is_secret_parameter(one.substr(0, equals))) {
      out.append(one.substr(0, equals + 1)).append(kRedacted);
    } else {
      out.append(one);
    }
    out.append(behind);
  });
  return out;
}

std::string fields_as_json(const Fields& fields) {
  std::string out = "[";
  for (const Field& field : fields.all()) {
    if (out.size() > 1) out.push_back(',');
    out.push_back('[');
    append_json_string(out, field.name);
    out.push_back(',');
    if (is_secret_field(field.name)) {
      append_json_string(out, kRedacted);
    } else if (is_url_with_query(field.value)) {
      append_json_string(out, redacted_target(field.value));
    } else {
      append_json_string(out, field.value);
    }
    out.push_back(']');
  }
  out.push_back(']');
  return out;
}

std::string leaf_text(std::string_view text, std::size_t bytes_max) {
  std::string out;
  if (is_utf8(text)) {
    out = text.substr(0, bytes_max);
  } else {
    for (const char c : text.substr(0, bytes_max)) {
      if (static_cast<unsigned char>(c) < 0x80) {
        out.push_back(c);
      } else {
        out += "\xEF\xBF\xBD";
      }
    }
    out.resize(std::min(out.size(), bytes_max));
  }
  while (!out.empty() && !is_utf8(out)) out.pop_back();  // at most three times: a cut character
  return out;
}

}  // namespace verbatim::gateway
