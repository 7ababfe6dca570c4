#pragma once
// Counters of the gateway. Plain integers on its one thread: on the way of an exchange a count
// costs an increment; Prometheus's own structures are made when somebody asks.

#include "audit/log.hpp"
#include "gateway/dialect.hpp"
#include "gateway/observations.hpp"
#include "gateway/upstream.hpp"
#include "gateway/upstream_facts.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace verbatim::gateway {

class Metrics {
 public:
  /// `cache` must be a literal.
  void count_exchange(Api api, EndStatus status, std::string_view cache, std::int64_t total_us);
  void count_bytes(std::uint64_t request, std::uint64_t response);
  void count_unrecorded_rejection() { ++unrecorded_rejections_; }
  void set_in_flight(std::int64_t change) { in_flight_ += change; }
  void set_connections(std::int64_t change) { connections_ += change; }
  [[nodiscard]] std::int64_t in_flight() const { return in_flight_; }

  /// Prometheus text format 0.0.4.
  [[nodiscard]] std::string text(const audit::Log::Stats& log, std::uint64_t gap,
                                 const Observations& observations,
                                 const UpstreamFacts& upstream_facts) const;

 private:
  static constexpr std::array<std::int64_t, 12> kBucketsUs = {
      500,     1'000,   2'500,     5'000,     10'000,     25'000,
      100'000, 500'000, 1'000'000, 5'000'000, 30'000'000, 120'000'000};

  std::map<std::tuple<Api, EndStatus, std::string_view>, std::uint64_t> exchanges_;
  std::array<std::uint64_t, kBucketsUs.size() + 1> durations_{};  // not cumulative
  std::int64_t duration_sum_us_ = 0;
  std::uint64_t request_bytes_ = 0, response_bytes_ = 0;
  std::uint64_t unrecorded_rejections_ = 0;
  std::int64_t in_flight_ = 0, connections_ = 0;
};

}  // namespace verbatim::gateway
