#include "gateway/request_target.hpp"

#include <algorithm>
#include <string>

namespace verbatim::gateway {

namespace {

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool all_of(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || more.find(c) != std::string_view::npos;
  });
}

/// What follows an http or https URL's "//"; none for what is no such URL.
std::optional<std::string_view> behind_scheme(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (same_word(target.substr(0, scheme.size()), scheme)) return target.substr(scheme.size());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> host_of(std::string_view authority) {
  std::string_view host;
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    if (!all_of(host, ":.%-_~")) return std::nullopt;
  } else {
    host = authority.substr(0, authority.find(':'));
    port = authority.substr(host.size());
    if (!all_of(host, "-._~%!$&'()*+,;=")) return std::nullopt;
  }
  const bool port_fits =
      port.empty() || (port.front() == ':' && std::all_of(port.begin() + 1, port.end(), [](char c) {
                         return c >= '0' && c <= '9';
                       }));
  if (host.empty() || !port_fits) return std::nullopt;
  return host;
}

void to_origin_form(RequestHead& head) {
  const auto rest = behind_scheme(head.target);
  if (!rest) return;
  const std::string authority(rest->substr(0, rest->find_first_of("/?#")));
  if (!host_of(authority)) return;
  std::string path(rest->substr(authority.size()));
  if (path.empty() && head.method == "OPTIONS") {
    path = "*";  // asks about the server: section 3.2.4
  } else if (!path.starts_with('/')) {
    path.insert(path.begin(), '/');
  }
  head.target = std::move(path);
  for (Field& field : head.fields.all()) {
    if (same_word(field.name, "host")) field.value = authority;
  }
  if (!head.fields.has("host")) head.fields.add("Host", authority);
}

bool is_origin_form(std::string_view target) {
  // A fragment is no part of a target; where one stands, servers differ in what they make of it.
  return target.starts_with('/') && target.find('#') == std::string_view::npos;
}

}  // namespace verbatim::gateway
