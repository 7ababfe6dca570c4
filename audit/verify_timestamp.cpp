#include "audit/verify_timestamp.hpp"

#include <utility>

namespace verbatim::audit {

TimestampFinding finding_of(std::uint64_t index, const Timestamp& timestamp) {
  return {index, timestamp.head.size, timestamp.token.time_us, timestamp.token.tsa, false};
}

void TimestampCheck::announce(std::uint64_t index, const Json& leaf, const KeyChain& keys,
                              HeadCheck& heads, Findings& findings) {
  announced_.insert(index);
  ++summary_.found;
  const std::string name = "leaf " + std::to_string(index);
  const auto timestamp = read_timestamp(leaf);
  if (!timestamp) {
    findings.tampered("timestamp", name + ": " + timestamp.error().what, index);
    return;
  }
  const auto head = open_checkpoint(timestamp->note, keys);
  // What a leaf speaks of came before it.
  if (!head || head->origin != keys.origin() || head->size > index) {
    findings.tampered("timestamp",
                      name + ": what was stamped is no earlier checkpoint that the log signed",
                      index);
    return;
  }
  heads.expect({"timestamp_fork", "the checkpoint that " + name + " has a time stamp of", *head});
  TimestampFinding finding = finding_of(index, *timestamp);
  if (trust_) {
    const auto trusted = trust_->check(timestamp->token);
    finding.trusted = trusted.has_value();
    if (trusted) ++summary_.trusted;
    if (!trusted) {
      findings.add(Verdict::valid_unwitnessed, "timestamp_untrusted",
                   name + ": " + trusted.error().what + " (" + trusted.error().where + ")", index);
    }
  }
  summary_.newest = std::move(finding);
}

void TimestampCheck::met(std::uint64_t index, Findings& findings) const {
  if (announced_.contains(index)) return;
  findings.tampered("timestamp", "leaf " + std::to_string(index) + " is not in the index", index);
}

void TimestampCheck::finish(Findings& findings) const {
  if (!trust_ || summary_.found > 0) return;
  findings.add(Verdict::valid_unwitnessed, "timestamp_missing", "no checkpoint has a time stamp");
}

Result<std::optional<TimestampTrust>> trust_of(const VerifyOptions& options) {
  if (options.tsa_ca.empty()) return std::optional<TimestampTrust>();
  auto trust = TimestampTrust::from_pem(options.tsa_ca);
  if (!trust) {
    Error error = trust.error();
    error.what = "the time-stamping authorities: " + error.what;
    return error;
  }
  return std::optional(std::move(*trust));
}

}  // namespace verbatim::audit
