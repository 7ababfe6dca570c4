#include "gateway/route_match.hpp"

#include "gateway/gemini.hpp"

#include <algorithm>

namespace verbatim::gateway {

namespace {

/// Dot segments, doubled and trailing slashes undone (RFC 3986 section 5.2.4).
std::string without_detours(std::string_view path) {
  std::vector<std::string_view> kept;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (!segment.empty() && segment != ".") {
      kept.push_back(segment);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  std::string out;
  for (const std::string_view segment : kept) out.append("/").append(segment);
  return out.empty() ? "/" : out;
}

std::string decoded_path(std::string_view path) {
  std::string out = percent_decoded(path);
  std::replace(out.begin(), out.end(), '\\', '/');
  return without_detours(out.substr(0, out.find_first_of("?#")));
}

/// Without what follows a ';' in each segment (RFC 3986 section 3.3): Java's servers read a path so.
std::string without_parameters(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    out.append(path.substr(0, std::min(path.find(';'), end)));
    if (end < path.size()) out.push_back('/');
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return without_detours(out);
}

}  // namespace

RouteForms::RouteForms(const RequestHead& head, std::string_view upstream) : upstream_(upstream) {
  const std::string raw = head.target.substr(0, head.target.find('?'));
  RequestHead plain;
  plain.method = head.method;
  add(plain, raw);
  const std::string once = decoded_path(raw);
  for (const std::string& read : {once, decoded_path(once)}) {
    for (const std::string& path :
         {read, without_detours(read.substr(0, read.find(';'))), without_parameters(read)}) {
      add(plain, path);
      std::string lower = path;
      for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      }
      add(plain, lower);
    }
  }
}

void RouteForms::add(RequestHead head, std::string path) {
  head.target = path;
  const bool known = std::any_of(forms_.begin(), forms_.end(),
                                 [&](const Form& form) { return form.path == path; });
  if (!known) forms_.push_back({std::move(path), api_of(head)});
}

bool names_another_model(const RequestHead& head, std::string_view model) {
  const RouteForms forms(head, "");
  return std::any_of(forms.all().begin(), forms.all().end(), [&](const RouteForms::Form& form) {
    if (const auto call = method_call_of(form.path)) return !same_word(call->model, model);
    // A Live session names its model in its first message. (The last form is in lower case.)
    return ends_with_gemini_method(form.path) ||
           form.path.find("bidigeneratecontent") != std::string::npos;
  });
}

bool RouteMatch::fits(const RouteForms::Form& form, std::string_view upstream_name) const {
  const bool path_fits = path.ends_with('*')
                             ? std::string_view(form.path).starts_with(
                                   std::string_view(path).substr(0, path.size() - 1))
                             : form.path == path;
  return path_fits && (api.empty() || api == api_name(form.api)) &&
         (upstream.empty() || upstream == upstream_name);
}

bool RouteMatch::fits_any(const RouteForms& forms) const {
  return std::any_of(forms.all().begin(), forms.all().end(),
                     [&](const RouteForms::Form& form) { return fits(form, forms.upstream()); });
}

}  // namespace verbatim::gateway
