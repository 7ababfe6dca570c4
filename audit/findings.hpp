#pragma once
// What verification found, and what follows from it.

#include "audit/key_chain.hpp"
#include "audit/verify.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace verbatim::audit {

inline constexpr std::size_t kProblemsMax = 1000;

/// Collects problems, each with the verdict that it alone would lead to.
class Findings {
 public:
  void add(Verdict verdict, std::string kind, std::string detail,
           std::optional<std::uint64_t> index = std::nullopt);
  void tampered(std::string kind, std::string detail,
                std::optional<std::uint64_t> index = std::nullopt) {
    add(Verdict::tampered, std::move(kind), std::move(detail), index);
  }
  /// The gravest: tampered, forked, truncated, stale, unwitnessed, valid.
  [[nodiscard]] Verdict verdict() const;
  [[nodiscard]] std::vector<Problem> take_problems() { return std::move(problems_); }

 private:
  std::array<std::uint64_t, 6> counts_{};  // by verdict
  std::vector<Problem> problems_;
};

/// A tree head that a signature vouches for and that was kept apart from the leaves: the high-water mark,
/// an older checkpoint. Checked when the tree, computed from the leaves, reaches its size.
struct Witnessed {
  std::string kind;  ///< the problem's kind if it does not match
  std::string name;  ///< "the high-water mark"
  Checkpoint checkpoint;
};

/// Tree heads by size, compared with the tree as it grows. Which verdict a mismatch means is known only at
/// the end: if the newest checkpoint matches the leaves, the log is whole and there are two histories.
class HeadCheck {
 public:
  void expect(Witnessed head) { expected_.emplace(head.checkpoint.size, std::move(head)); }
  /// Call at every size, 0 included.
  void reached(std::uint64_t size, const std::function<Digest()>& root);
  /// Call for a signed head of the log's own at the size the tree has.
  void own(const Checkpoint& checkpoint, const Digest& root);
  /// `newest_matches`: the log's newest checkpoint is the tree of all its leaves.
  void conclude(bool newest_matches, Findings& findings) const;

 private:
  std::multimap<std::uint64_t, Witnessed> expected_;
  std::vector<Witnessed> mismatched_;
  std::optional<std::uint64_t> first_own_mismatch_;
  std::uint64_t own_mismatches_ = 0;
};

/// What the checkpoint that a verifier was given means for a log of `size` leaves. `invalid_input`: it is no
/// checkpoint, or another log's.
Result<void> expect_given(const std::string& given, const KeyChain& keys, std::uint64_t size,
                          HeadCheck& heads, Findings& findings);

/// Whether the policy's quorum cosigned the newest checkpoint. `invalid_input`: a malformed policy.
Result<void> check_policy(const std::string& policy, const std::string& note, const KeyChain& keys,
                          Findings& findings);

}  // namespace verbatim::audit
