#include "audit/pkcs11_uri.hpp"

#include "schema/bytes.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

namespace verbatim::audit {

namespace {

Error malformed(std::string what, std::string advice = "") {
  return Error{Errc::invalid_input, std::move(what), "pkcs11 URI", std::move(advice)};
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto byte = from_hex(text.substr(i + 1, 2));
    if (!byte || byte->size() != 1) return malformed("a % is not followed by two digits");
    decoded += static_cast<char>(byte->front());
    i += 2;
  }
  return decoded;
}

using Attributes = std::map<std::string, std::string, std::less<>>;

Result<Attributes> split(std::string_view text, char separator) {
  Attributes attributes;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return malformed("an attribute is not NAME=VALUE");
    }
    const std::string name(pair.substr(0, equals));
    auto value = percent_decoded(pair.substr(equals + 1));
    if (!value) return value.error();
    if (!attributes.emplace(name, std::move(*value)).second) {
      return malformed("'" + name + "' is there twice");
    }
  }
  return attributes;
}

std::optional<std::string> take(Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  std::string value = std::move(found->second);
  attributes.erase(found);
  return value;
}

bool is_absolute(std::string_view path) {
  return path.starts_with('/') && path.find('\0') == std::string_view::npos;
}

Result<void> read_path(Attributes path, Pkcs11Uri& uri) {
  uri.token = take(path, "token");
  uri.manufacturer = take(path, "manufacturer");
  uri.model = take(path, "model");
  uri.serial = take(path, "serial");
  uri.object = take(path, "object");
  uri.id = take(path, "id");
  if (const auto slot = take(path, "slot-id")) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(slot->data(), slot->data() + slot->size(), number);
    if (error != std::errc() || end != slot->data() + slot->size()) {
      return malformed("slot-id is no number");
    }
    uri.slot_id = number;
  }
  const auto type = take(path, "type");
  if (type && *type != "private") {
    return malformed("the type of a signing key is private");
  }
  if (!path.empty()) {
    return malformed("'" + path.begin()->first + "' is not known here",
                     "name the token by token, manufacturer, model, serial or slot-id, and the key "
                     "by object or id");
  }
  return {};
}

Result<void> read_pin_source(std::string_view source, Pkcs11Uri& uri) {
  if (source.starts_with("env:") && source.size() > 4) {
    uri.pin_variable = source.substr(4);
    return {};
  }
  if (source.starts_with("file:")) source.remove_prefix(5);
  if (source.starts_with("///")) source.remove_prefix(2);
  if (!is_absolute(source) || source.starts_with("//")) {
    return malformed("pin-source is neither a file nor a variable",
                     "write pin-source=file:/absolute/path or pin-source=env:NAME");
  }
  uri.pin_file = source;
  return {};
}

Result<void> read_query(Attributes query, Pkcs11Uri& uri) {
  if (query.contains("pin-value")) {
    return malformed("pin-value is not taken: a PIN in a URI would be stored and shown",
                     "use pin-source; change the PIN if the URI was seen by others");
  }
  if (auto path = take(query, "module-path")) uri.module_path = std::move(*path);
  if (!is_absolute(uri.module_path)) {
    return malformed("no module-path, or no absolute one",
                     "add ?module-path=/path/of/the/module.so");
  }
  if (const auto source = take(query, "pin-source")) {
    if (auto read = read_pin_source(*source, uri); !read) return read;
  }
  if (!query.empty()) {
    return malformed("'" + query.begin()->first + "' is not known here",
                     "after the ? come module-path and pin-source");
  }
  return {};
}

}  // namespace

std::string Pkcs11Uri::shown() const {
  std::string text = "token " + token.value_or(serial.value_or(""));
  if (!token && !serial) text = slot_id ? "slot " + std::to_string(*slot_id) : "any token";
  if (object) text += ", key " + *object;
  if (id) text += ", id " + to_hex(as_bytes(*id));
  return text;
}

Result<Pkcs11Uri> parse_pkcs11_uri(std::string_view text) {
  if (!is_pkcs11_uri(text)) return malformed("it does not begin with pkcs11:");
  // What is printable and no space keeps a line of log.key one line of two words.
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
  if (!plain || text.size() > kPkcs11UriBytesMax) {
    return malformed("more than 1,024 bytes, or a character that is not printable ASCII",
                     "write others as %20");
  }
  text.remove_prefix(std::string_view("pkcs11:").size());
  const std::size_t mark = text.find('?');
  auto path = split(text.substr(0, mark), ';');
  if (!path) return path.error();
  auto query = split(mark == std::string_view::npos ? "" : text.substr(mark + 1), '&');
  if (!query) return query.error();
  Pkcs11Uri uri;
  if (auto read = read_path(std::move(*path), uri); !read) return read.error();
  if (auto read = read_query(std::move(*query), uri); !read) return read.error();
  return uri;
}

}  // namespace verbatim::audit
