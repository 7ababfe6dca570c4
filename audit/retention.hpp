#pragma once
// How long a record must be kept at least, and by what law: the member `retention` of its request leaf (schema/leaf.md).

#include "schema/canonical_json.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace verbatim::audit {

class Queries;
struct Scope;

inline constexpr std::uint64_t kRetentionDaysMax = 36'525;  ///< a hundred years

struct Retention {
  std::string name;        ///< of the class
  std::uint64_t days = 0;  ///< minimum period, from the request leaf's time
  std::string basis;       ///< the law or contract, as text
};
[[nodiscard]] Json retention_json(const Retention& retention);

/// When the minimum period of a request leaf ends, in Unix microseconds. One that names none has none: 0. One that cannot be
/// read never ends: it was meant to keep something.
[[nodiscard]] std::int64_t kept_until(const Json& request);

/// The same for people: "until 2027-06-01", or "for ever".
[[nodiscard]] std::string kept_until_text(std::int64_t until_us);

/// Leave to erase before the period ends, given by a leaf of type `retention_override`.
struct RetentionOverride {
  std::uint64_t leaf = 0;  ///< it is for leaves before it
  std::string reason;
};
/// The newest for this very scope (audit/erasure.hpp).
[[nodiscard]] Result<std::optional<RetentionOverride>> retention_override(Queries& queries,
                                                                          const Scope& scope);

/// `unavailable`, saying until when and why, if the record that this leaf belongs to must still be kept, and
/// `override_for` is not for it.
[[nodiscard]] Result<void> check_retention(Queries& queries, std::uint64_t leaf,
                                           std::int64_t now_us,
                                           const std::optional<RetentionOverride>& override_for);

}  // namespace verbatim::audit
