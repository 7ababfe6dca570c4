#include "gateway/host_rule.hpp"

#include "gateway/request_target.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>

namespace verbatim::gateway {

namespace {

std::string_view without_final_dot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool is_localhost(std::string_view name) {
  constexpr std::string_view kName = "localhost";
  if (name.size() <= kName.size()) return same_word(name, kName);
  const std::size_t at = name.size() - kName.size();
  return name[at - 1] == '.' && same_word(name.substr(at), kName);
}

}  // namespace

bool answers_to(std::string_view host, const HostPort& listen,
                const std::vector<std::string>& names) {
  if (host.empty()) return true;
  const auto named = host_of(host);
  if (!named) return false;
  boost::system::error_code no_address;
  boost::asio::ip::make_address(std::string(*named), no_address);
  if (!no_address) return true;
  const std::string_view name = without_final_dot(*named);
  return is_localhost(name) || same_word(name, without_final_dot(listen.host)) ||
         std::any_of(names.begin(), names.end(), [&](const std::string& each) {
           return each == "*" || same_word(name, without_final_dot(each));
         });
}

bool from_another_site(const Fields& fields) {
  const std::string* origin = fields.find("origin");
  if (origin == nullptr) return false;
  const std::size_t scheme = origin->find("://");  // none: "null", a page of no site
  return scheme == std::string::npos ||
         !same_word(std::string_view(*origin).substr(scheme + 3), fields.get("host"));
}

}  // namespace verbatim::gateway
