#pragma once
// That contents which are gone went by an erasure, each named by exactly one leaf.

#include "audit/erasure.hpp"
#include "audit/findings.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace verbatim::audit {

/// Fed with a log in order: contents that are gone, and erasure leaves. Memory grows with the contents that are gone and
/// not named yet. Copyable.
class ErasureCheck {
 public:
  /// Contents of leaves below this one may be gone without being named: they were pruned.
  void pruned_below(std::uint64_t minimum_index) { pruned_below_ = minimum_index; }
  void gone(std::uint64_t leaf, const std::string& field) { unnamed_.emplace(leaf, field); }
  /// Problem: `erasure` (the leaf names a content that is there, or that an earlier one named; or it is malformed).
  void named(std::uint64_t index, const Json& erasure, Findings& findings);
  /// An erasure that came while the log was being read: what it names may have been seen before it went, or after.
  void named_meanwhile(const Json& erasure);
  /// Problem: `erased_without_leaf`.
  void finish(Findings& findings) const;

 private:
  std::set<std::pair<std::uint64_t, std::string>> unnamed_;
  std::uint64_t pruned_below_ = 0;
};

}  // namespace verbatim::audit
