#pragma once
// What a request asks for, and of whom: its target (RFC 9112 section 3.2), and the authority in it or in Host.

#include "gateway/http.hpp"

#include <optional>
#include <string_view>

namespace verbatim::gateway {

/// The host of "host:port", "host", "[::1]:80" (without the brackets); none if the text is not that, which userinfo is not
/// either (RFC 3986 section 3.2).
[[nodiscard]] std::optional<std::string_view> host_of(std::string_view authority);

/// A target that is an http or https URL becomes the path that it has, and Host what it says, whatever Host said (RFC 9112
/// section 3.2.2). Any other is left as it is.
void to_origin_form(RequestHead& head);

/// True for a path, with or without a query, that all servers cut at the same places.
[[nodiscard]] bool is_origin_form(std::string_view target);

}  // namespace verbatim::gateway
