#pragma once
// Two counts that end as leaves: rejections beyond the rate at which each has leaves of its own,
// and exchanges that were answered while the log could not be written.

#include "gateway/recorder.hpp"
#include "schema/uuid.hpp"

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// On the gateway's thread.
class Ledger : public std::enable_shared_from_this<Ledger> {
 public:
  Ledger(Recorder& recorder, std::shared_ptr<Mailbox> mailbox, UuidGenerator& ids,
         const Clock& clock, double rejections_per_s, std::shared_ptr<spdlog::logger> out);

  /// True if a rejection may have leaves of its own; else it is counted, and rejections_id() is its
  /// record.
  [[nodiscard]] bool admit_rejection();
  /// A rejection that had leaves of its own before it was known to be one: counts against the rate.
  void note_rejection();
  /// True if a rejection could not have leaves of its own now.
  [[nodiscard]] bool rejections_spent();
  /// The record id that the coming `rejections` leaf will have.
  [[nodiscard]] std::string rejections_id() const { return rejections_id_.str(); }

  /// A leaf could not be written: said aloud, at most once a second.
  void complain(const std::string& reason);

  /// An upstream failed an exchange: said aloud, at most once a second.
  void complain_of_upstream(std::string_view what, std::string_view record);

  /// An exchange ended with an exception.
  void complain_of_bug(std::string_view what);

  /// An exchange, or the end of one, was answered without its leaf.
  void count_gap(const std::string& reason);
  [[nodiscard]] std::uint64_t gap() const { return gap_; }

  /// Writes what is due: at most one leaf of each kind at a time, at most one of each a second.
  /// Counts stay until their leaf is durable.
  void settle();

 private:
  void refill();
  void settle_rejections();
  void settle_gap();

  Recorder& recorder_;
  std::shared_ptr<Mailbox> mailbox_;
  UuidGenerator& ids_;
  const Clock& clock_;
  std::shared_ptr<spdlog::logger> out_;

  double rate_;    // tokens a second
  double tokens_;  // of the bucket, at most rate_
  std::int64_t refilled_us_;
  std::uint64_t rejections_ = 0;
  std::int64_t rejections_since_us_ = 0;
  Uuid rejections_id_;
  bool rejections_pending_ = false;

  /// What is said at most once a second, with how often it happened since.
  struct Complaint {
    std::int64_t said_us = INT64_MIN / 2;  // steady
    std::uint64_t count = 0;
  };
  /// Counts one more. The count since it was last said, if it may be said now; else 0.
  std::uint64_t count(Complaint& complaint);
  Complaint leaves_refused_, upstreams_failed_;

  std::uint64_t gap_ = 0;
  std::int64_t gap_since_us_ = 0;
  std::string gap_reason_;
  bool gap_pending_ = false;
};

}  // namespace verbatim::gateway
