#pragma once
// That contents which are gone went by an erasure, each named by exactly one leaf.

#include "audit/erasure.hpp"
#include "audit/findings.hpp"
#include "audit/prune.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace verbatim::audit {

/// Fed with a log in order: contents that are gone, and erasure leaves. Memory grows with the contents that are gone and
/// not named yet. Copyable.
class ErasureCheck {
 public:
  /// Contents of the leaves that it covers may be gone without being named.
  void pruned(Pruned pruned) { pruned_ = std::move(pruned); }
  void gone(std::uint64_t leaf, const std::string& field) { unnamed_.emplace(leaf, field); }
  /// Problem: `erasure` (the leaf names a content that is there, or that an earlier one named; or it is malformed).
  void named(std::uint64_t index, const Json& erasure, Findings& findings);
  /// An erasure that came while the log was being read: what it names may have been seen before it went, or after.
  void named_meanwhile(const Json& erasure);
  /// Problem: `erased_without_leaf`.
  void finish(Findings& findings) const;

 private:
  std::set<std::pair<std::uint64_t, std::string>> unnamed_;
  Pruned pruned_;
};

}  // namespace verbatim::audit
