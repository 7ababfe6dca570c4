#include "audit/retention.hpp"

#include "audit/erasure.hpp"
#include "audit/json_member.hpp"
#include "audit/queries.hpp"
#include "schema/clock.hpp"

#include <limits>

namespace verbatim::audit {

namespace {

constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

}  // namespace

Json retention_json(const Retention& retention) {
  return {{"class", retention.name}, {"days", retention.days}, {"basis", retention.basis}};
}

std::int64_t kept_until(const Json& request) {
  const Json* const retention = member(request, "retention");
  if (retention == nullptr) return 0;
  const Json* const days = member(*retention, "days");
  const auto head = read_leaf_head(request);
  if (!head || days == nullptr || !days->is_number_unsigned() || *days > kRetentionDaysMax) {
    return kForever;
  }
  return head->time_us + static_cast<std::int64_t>(days->get<std::uint64_t>()) * kDayUs;
}

std::string kept_until_text(std::int64_t until_us) {
  constexpr std::int64_t kYear10000Us = 253'402'300'800'000'000;  // RFC 3339 cannot write it
  return until_us > kYear10000Us ? "for ever" : "until " + format_rfc3339(until_us).substr(0, 10);
}

Result<std::optional<RetentionOverride>> retention_override(Queries& queries, const Scope& scope) {
  std::optional<RetentionOverride> newest;
  const Json wanted = scope_json(scope);
  auto read = queries.retention_overrides([&](std::uint64_t index, std::string_view bytes) {
    const auto json = parse_json(bytes);
    const Json* const given = json ? member(*json, "scope") : nullptr;
    if (given != nullptr && *given == wanted) {
      newest = RetentionOverride{index, text_at(*json, "reason")};
    }
    return true;
  });
  if (!read) return read.error();
  return newest;
}

Result<void> check_retention(Queries& queries, std::uint64_t leaf, std::int64_t now_us,
                             const std::optional<RetentionOverride>& override_for) {
  if (override_for && leaf < override_for->leaf) return {};
  const auto bytes = queries.leaf(leaf);
  if (!bytes && bytes.error().code == Errc::erased) return {};  // pruned: it had no period left
  if (!bytes) return bytes.error();
  const auto json = parse_json(*bytes);
  if (!json) return json.error();
  if (text_at(*json, "type") == "response") {
    const auto request = static_cast<std::uint64_t>(number_at(*json, "request"));
    return request < leaf ? check_retention(queries, request, now_us, override_for)
                          : Result<void>();
  }
  const std::int64_t until = kept_until(*json);
  if (now_us >= until) return {};
  const Json& retention = json->at("retention");
  return Error{Errc::unavailable,
               "the record must be kept " + kept_until_text(until) + ", class " +
                   text_at(retention, "class") + ": " + text_at(retention, "basis"),
               text_at(*json, "id"),
               "wait, or give --override-retention with the law that wants it gone before"};
}

}  // namespace verbatim::audit
