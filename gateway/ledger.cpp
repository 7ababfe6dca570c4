#include "gateway/ledger.hpp"

#include "gateway/header_rules.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::gateway {

Ledger::Ledger(Recorder& recorder, std::shared_ptr<Mailbox> mailbox, UuidGenerator& ids,
               const Clock& clock, double rejections_per_s, std::shared_ptr<spdlog::logger> out)
    : recorder_(recorder),
      mailbox_(std::move(mailbox)),
      ids_(ids),
      clock_(clock),
      out_(std::move(out)),
      rate_(rejections_per_s),
      tokens_(rejections_per_s),
      refilled_us_(clock.steady_us()),
      rejections_id_(ids.next()) {}

void Ledger::refill() {
  const std::int64_t now = clock_.steady_us();
  tokens_ = std::min(rate_, tokens_ + rate_ * static_cast<double>(now - refilled_us_) / 1e6);
  refilled_us_ = now;
}

bool Ledger::admit_rejection() {
  if (!rejections_spent()) {
    tokens_ -= 1;
    return true;
  }
  if (rejections_++ == 0) rejections_since_us_ = clock_.now_us();
  return false;
}

void Ledger::note_rejection() {
  refill();
  tokens_ = std::max(0.0, tokens_ - 1);
}

bool Ledger::rejections_spent() {
  refill();
  return tokens_ < 1;
}

void Ledger::complain_of_bug(std::string_view what) {
  out_->error("an exchange ended with an exception: {}", what);
}

void Ledger::complain(const std::string& reason) {
  if (const auto refused = count(leaves_refused_); refused > 0) {
    out_->error("the audit log cannot be written ({} leaves refused): {}", refused, reason);
  }
}

void Ledger::complain_of_upstream(std::string_view what, std::string_view record) {
  const auto failed = count(upstreams_failed_);
  if (failed == 0) return;
  const std::string more = failed > 1 ? ", and " + std::to_string(failed - 1) + " more" : "";
  out_->warn("{} (record {}{})", what, record, more);
}

std::uint64_t Ledger::count(Complaint& complaint) {
  ++complaint.count;
  const std::int64_t now = clock_.steady_us();
  if (now - complaint.said_us < 1'000'000) return 0;
  complaint.said_us = now;
  return std::exchange(complaint.count, 0);
}

void Ledger::count_gap(const std::string& reason) {
  if (gap_++ == 0) {
    gap_since_us_ = clock_.now_us();
    gap_reason_ = reason;
  }
}

void Ledger::settle() {
  if (rejections_ > 0 && !rejections_pending_) settle_rejections();
  if (gap_ > 0 && !gap_pending_) settle_gap();
}

void Ledger::settle_rejections() {
  const std::uint64_t count = rejections_;
  audit::LeafDraft draft;
  draft.type = "rejections";
  draft.id = rejections_id_;
  draft.fields = {{"count", count}, {"since", format_rfc3339(rejections_since_us_)}};
  rejections_pending_ = true;
  rejections_ = 0;  // those that come from now on are the next leaf's
  rejections_id_ = ids_.next();
  recorder_.append(std::move(draft), [self = shared_from_this(), count](auto result) {
    self->mailbox_->post([self, count, durable = result.has_value()] {
      self->rejections_pending_ = false;
      if (!durable) self->rejections_ += count;
    });
  });
}

void Ledger::settle_gap() {
  const std::uint64_t count = gap_;
  audit::LeafDraft draft;
  draft.type = "gap";
  draft.fields = {{"count", count},
                  {"since", format_rfc3339(gap_since_us_)},
                  {"reason", leaf_text(gap_reason_, 256)}};
  gap_pending_ = true;
  recorder_.append(std::move(draft), [self = shared_from_this(), count](auto result) {
    self->mailbox_->post([self, count, durable = result.has_value()] {
      self->gap_pending_ = false;
      if (durable) self->gap_ -= count;
    });
  });
}

}  // namespace verbatim::gateway
