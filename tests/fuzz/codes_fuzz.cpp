// Small texts that stand for something else: hexadecimal, base64, digests, ids, times, addresses, keys' hashes.

#include "gateway/config.hpp"
#include "gateway/gateway_keys.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/http_proxy.hpp"
#include "schema/clock.hpp"
#include "schema/digest.hpp"
#include "schema/html_escape.hpp"
#include "schema/uuid.hpp"
#include "tests/fuzz/target.hpp"

#include <algorithm>

namespace verbatim::fuzz {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

void check_schema(std::string_view text) {
  if (const auto bytes = from_hex(text)) VERBATIM_CHECK(to_hex(*bytes) == lower(text));
  if (const auto bytes = from_base64(text)) VERBATIM_CHECK(to_base64(*bytes) == text);
  if (const auto digest = parse_digest(text)) VERBATIM_CHECK(digest->hex() == lower(text));
  if (const auto id = parse_uuid(text)) VERBATIM_CHECK(id->str() == lower(text));
  VERBATIM_CHECK(*from_hex(to_hex(as_bytes(text))) ==
                 ByteVector(as_bytes(text).begin(), as_bytes(text).end()));
  VERBATIM_CHECK(as_text(*from_base64(to_base64(as_bytes(text)))) == text);
  if (const auto time = parse_rfc3339(text)) {
    const auto again = parse_rfc3339(format_rfc3339(*time));
    VERBATIM_CHECK(again.has_value());
    VERBATIM_CHECK(*again == *time);
  }
  VERBATIM_CHECK(escape_html(text).find_first_of("<>\"'") == std::string::npos);
}

void check_addresses(std::string_view text) {
  using namespace gateway;
  if (const auto address = parse_host_port(text)) {
    const auto again = parse_host_port(address->str());
    VERBATIM_CHECK(again.has_value());
    VERBATIM_CHECK(again->host == address->host && again->port == address->port);
  }
  if (const auto url = parse_base_url(text)) {
    VERBATIM_CHECK(!url->address.host.empty());
    // Both go into the head of a request.
    VERBATIM_CHECK(url->host_field().find_first_of("\r\n") == std::string::npos);
    VERBATIM_CHECK(url->target("/v1/models").find_first_of("\r\n ") == std::string::npos);
  }
  (void)parse_upstream(text);
  (void)parse_model(text);
  if (const auto hash = parse_key_hash(text)) VERBATIM_CHECK(hash->str() == lower(text));
  (void)connected(text);
  const std::string proxy(text.substr(0, text.find('\0')));
  const auto named = [&](const char* name) -> const char* {
    return std::string_view(name) == "HTTPS_PROXY" ? proxy.c_str() : nullptr;
  };
  const auto through = proxy_for(*parse_base_url("https://api.example.com"), named);
  if (through && through->has_value()) {
    const std::string head = connect_request(**through, {"api.example.com", 443});
    VERBATIM_CHECK(head.ends_with("\r\n\r\n"));
    VERBATIM_CHECK(head.find("\r\n\r\n") == head.size() - 4);
  }
}

void run(std::string_view text) {
  check_schema(text);
  check_addresses(text);
}

// Texts of several lines: NOLINTBEGIN(bugprone-suspicious-missing-comma)
std::vector<std::string> seeds() {
  return {"00ffA9",
          "AAECAwQ=",
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
          "01890a5d-ac96-774b-bcce-b302099a8057",
          "2026-11-29T12:34:56.000123Z",
          "2024-02-29T23:59:60+23:59",
          "2026-11-30",
          "0000-01-01T00:00:00-00:01",
          "127.0.0.1:8080",
          "[::1]:80",
          "https://api.example.com:8443/base/v1/",
          "http://user:pw@[fe80::1]:3128/",
          "name=https://api.example.com",
          "demo=/models/demo",
          "vb1:01234567:000102030405060708090a0b0c0d0e0f:"
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
          "HTTP/1.1 200 Connection established\r\n\r\n"};
}
// NOLINTEND(bugprone-suspicious-missing-comma)

const Registration kCodes({"codes",
                           run,
                           seeds,
                           {"https://", "http://", "@", "/v1", "%0d%0a", "[::1]", "9999-12-31",
                            "+24:00", "24:00:00", "=", "HTTP/1.0 200", "\r\n", ":65536"}});

}  // namespace

}  // namespace verbatim::fuzz
