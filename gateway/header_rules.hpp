#pragma once
// What the gateway changes in a head, and what it hides of it from the log. All else passes as
// received.

#include "gateway/http.hpp"

#include <string>
#include <string_view>

namespace verbatim::gateway {

/// Removes the hop-by-hop fields (RFC 9110 section 7.6.1): Connection and what it names (but for
/// Host and Content-*), Keep-Alive, TE, Trailer, Transfer-Encoding, Upgrade, and Proxy-*. Order and
/// case of the rest stay.
void strip_hop_by_hop(Fields& fields);

/// The credential that the client showed: the token of Authorization, else x-api-key, else api-key,
/// else x-goog-api-key, else the key among a WebSocket's subprotocols; "" if none. Never to be logged.
[[nodiscard]] std::string_view credential_of(const Fields& fields);

/// Takes all of those away.
void remove_credentials(Fields& fields);

/// True for fields whose values are credentials: Authorization, x-api-key, Cookie, and their like.
[[nodiscard]] bool is_secret_field(std::string_view name);

/// The target with the values of secret query parameters (key, api_key, access_token, ...), and a URL's user name and
/// password, replaced by REDACTED. Names are compared without case and after percent-decoding.
[[nodiscard]] std::string redacted_target(std::string_view target);

/// JSON array of [name, value] in order, secret values replaced by REDACTED: the content
/// `request.headers` and `response.headers` of schema/leaf.md.
[[nodiscard]] std::string fields_as_json(const Fields& fields);

/// Text from outside, made fit for a leaf: valid UTF-8 (each bad byte becomes U+FFFD) of at most
/// `bytes_max` bytes, never cut inside a character.
[[nodiscard]] std::string leaf_text(std::string_view text, std::size_t bytes_max);

}  // namespace verbatim::gateway
