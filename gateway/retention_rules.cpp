#include "gateway/retention_rules.hpp"

#include <algorithm>

namespace verbatim::gateway {

namespace {

const audit::Retention* longer(const audit::Retention* one, const audit::Retention& other) {
  return one == nullptr || other.days > one->days ? &other : one;
}

}  // namespace

const audit::Retention* retention_for(const std::vector<RetentionRule>& rules,
                                      const RequestHead& head, std::string_view upstream) {
  const audit::Retention* found = nullptr;
  if (rules.empty()) return found;
  if (!head.target.starts_with('/')) {
    for (const RetentionRule& rule : rules) found = longer(found, rule.retention);
    return found;
  }
  const RouteForms forms(head, upstream);
  for (const RouteForms::Form& form : forms.all()) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const RetentionRule& each) {
      return each.where.fits(form, forms.upstream());
    });
    if (rule != rules.end()) found = longer(found, rule->retention);
  }
  return found;
}

}  // namespace verbatim::gateway
