#pragma once
// Which requests a rule of the configuration is for.

#include "gateway/dialect.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// The ways in which a server may read a request's path: as it came; with escapes, dot segments, doubled and trailing
/// slashes undone, once and twice; and that in lower case. With the API that each way gives.
class RouteForms {
 public:
  struct Form {
    std::string path;
    Api api;
  };
  RouteForms(const RequestHead& head, std::string_view upstream);

  [[nodiscard]] const std::vector<Form>& all() const { return forms_; }
  [[nodiscard]] std::string_view upstream() const { return upstream_; }

 private:
  void add(RequestHead head, std::string path);
  std::string upstream_;
  std::vector<Form> forms_;
};

/// True if some server might read another model than this one in the path, or read it in a place that is not known here:
/// then nothing that depends on the model can be decided by it.
[[nodiscard]] bool names_another_model(const RequestHead& head, std::string_view model);

struct RouteMatch {
  std::string path =
      "*";               ///< a path, or the beginning of one that ends with '*'; without the query
  std::string api;       ///< api_name(); "": any
  std::string upstream;  ///< its name, or "local"; "": any

  [[nodiscard]] bool fits(const RouteForms::Form& form, std::string_view upstream_name) const;
  [[nodiscard]] bool fits_any(const RouteForms& forms) const;
};

}  // namespace verbatim::gateway
