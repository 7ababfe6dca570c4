#include "audit/findings.hpp"

#include "audit/policy.hpp"

#include <algorithm>

namespace verbatim::audit {

void Findings::add(Verdict verdict, std::string kind, std::string detail,
                   std::optional<std::uint64_t> index) {
  ++counts_[static_cast<std::size_t>(verdict)];
  if (problems_.size() < kProblemsMax) {
    problems_.push_back({std::move(kind), std::move(detail), index});
  }
}

Verdict Findings::verdict() const {
  for (const Verdict verdict : {Verdict::tampered, Verdict::forked, Verdict::truncated,
                                Verdict::stale, Verdict::valid_unwitnessed}) {
    if (counts_[static_cast<std::size_t>(verdict)] > 0) return verdict;
  }
  return Verdict::valid;
}

void HeadCheck::reached(std::uint64_t size, const std::function<Digest()>& root_of_tree) {
  const auto [begin, end] = expected_.equal_range(size);
  if (begin == end) return;
  const Digest root = root_of_tree();
  for (auto head = begin; head != end; ++head) {
    if (head->second.checkpoint.root != root) mismatched_.push_back(head->second);
  }
}

void HeadCheck::own(const Checkpoint& checkpoint, const Digest& root) {
  if (checkpoint.root == root) return;
  if (own_mismatches_++ == 0) first_own_mismatch_ = checkpoint.size;
}

void HeadCheck::conclude(bool newest_matches, Findings& findings) const {
  const Verdict verdict = newest_matches ? Verdict::forked : Verdict::tampered;
  if (first_own_mismatch_) {
    findings.add(verdict, newest_matches ? "checkpoint_fork" : "checkpoint_root",
                 std::to_string(own_mismatches_) + " signed checkpoints, the first of size " +
                     std::to_string(*first_own_mismatch_) + ", are not of the leaves stored",
                 first_own_mismatch_);
  }
  // Leaves that the log's own checkpoints contradict explain the rest.
  if (first_own_mismatch_ && !newest_matches) return;
  for (const Witnessed& head : mismatched_) {
    findings.add(verdict, head.kind,
                 head.name + " of size " + std::to_string(head.checkpoint.size) +
                     " was signed for other leaves than those stored");
  }
}

Result<void> expect_given(const std::string& given, const KeyChain& keys, std::uint64_t size,
                          HeadCheck& heads, Findings& findings) {
  const auto note = parse_note(given);
  const auto plain = note ? parse_checkpoint_text(note->text) : Result<Checkpoint>(note.error());
  if (!plain) {
    return Error{Errc::invalid_input, "the given checkpoint: " + plain.error().what, "", ""};
  }
  if (plain->origin != keys.origin()) {
    return Error{Errc::invalid_input, "the given checkpoint is of another log, " + plain->origin,
                 keys.origin(), ""};
  }
  const auto opened = open_checkpoint(given, keys);
  if (!opened && opened.error().code == Errc::tampered) {
    return Error{
        Errc::invalid_input,
        "the given checkpoint says something else than was signed: the file is damaged or forged",
        "", "get it again from where it was kept"};
  }
  if (!opened) {
    findings.tampered("given_checkpoint_key",
                      "the given checkpoint names this log, but another key signed it");
    return {};
  }
  if (plain->size > size) {
    findings.add(Verdict::stale, "given_checkpoint_ahead",
                 "the given checkpoint has " + std::to_string(plain->size) +
                     " leaves, the log has " + std::to_string(size));
    return {};
  }
  heads.expect({"given_checkpoint_fork", "the given checkpoint", *plain});
  return {};
}

Result<void> check_policy(const std::string& policy, const std::string& note, const KeyChain& keys,
                          Findings& findings) {
  const auto parsed = Policy::parse(policy);
  if (!parsed) return parsed.error();
  const auto& logs = parsed->logs();
  const auto named = [&](const VerifierKey& log) { return keys.contains(log); };
  if (!logs.empty() && std::none_of(logs.begin(), logs.end(), named)) {
    findings.add(Verdict::valid_unwitnessed, "policy_log", "the policy does not name this log");
  }
  const auto opened = parse_note(note);
  if (!opened || !parsed->met_by(*opened)) {
    findings.add(Verdict::valid_unwitnessed, "policy_quorum",
                 "the policy's quorum of witnesses did not cosign the newest checkpoint");
  }
  return {};
}

}  // namespace verbatim::audit
