#pragma once
// For which names a listener answers. A page in a browser can make its own name lead to an address of this machine (DNS
// rebinding), and then read what a listener says to it: such a request names the page's host, not ours.

#include "gateway/config.hpp"
#include "gateway/http.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// True if a request with this Host is meant for the listener at `listen`: it names an IP address, which nobody can rebind;
/// localhost, or a name under it; the name that the listener was given; or one of `names`, where "*" stands for any. Also
/// without a Host, which every browser sends.
[[nodiscard]] bool answers_to(std::string_view host, const HostPort& listen,
                              const std::vector<std::string>& names);

/// True for what a browser sends for a page that did not come from the very host and port that it asks now.
[[nodiscard]] bool from_another_site(const Fields& fields);

}  // namespace verbatim::gateway
