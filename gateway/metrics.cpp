#include "gateway/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <vector>

namespace verbatim::gateway {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(std::string name, std::string help, MetricType type) {
  MetricFamily out;
  out.name = "verbatim_" + std::move(name);
  out.help = std::move(help);
  out.type = type;
  return out;
}

MetricFamily one(std::string name, std::string help, MetricType type, double value) {
  MetricFamily out = family(std::move(name), std::move(help), type);
  ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  out.metric.push_back(metric);
  return out;
}

void add_results(MetricFamily& to, const std::string& model, std::uint64_t same,
                 std::uint64_t different, std::uint64_t incomparable) {
  using Result = Observations::Result;
  for (const auto& [result, count] :
       {std::pair(Result::same, same), std::pair(Result::different, different),
        std::pair(Result::incomparable, incomparable)}) {
    ClientMetric metric;
    metric.label = {{"model", model}, {"result", std::string(observation_name(result))}};
    metric.counter.value = static_cast<double>(count);
    to.metric.push_back(metric);
  }
}

MetricFamily observed_family(const Observations& observations) {
  MetricFamily out = family("cache_observed_total",
                            "Hits that were asked upstream again, by model and by whether the "
                            "answer was the canonical one",
                            MetricType::Counter);
  for (const auto& [model, counts] : observations.by_model()) {
    add_results(out, model, counts.same, counts.different, counts.incomparable);
  }
  return out;
}

MetricFamily observed_normal_family(const Observations& observations) {
  MetricFamily out =
      family("cache_observed_normal_total",
             "The same, compared in the normal form that is configured", MetricType::Counter);
  for (const auto& [model, counts] : observations.by_model()) {
    if (counts.normal_same + counts.normal_different + counts.normal_incomparable == 0) continue;
    add_results(out, model, counts.normal_same, counts.normal_different,
                counts.normal_incomparable);
  }
  return out;
}

MetricFamily changes_family(const UpstreamFacts& upstream_facts) {
  MetricFamily out =
      family("upstream_environment_changes_total",
             "How often what an upstream says of itself has changed", MetricType::Counter);
  for (const auto& [name, changes] : upstream_facts.changes()) {
    ClientMetric metric;
    metric.label = {{"upstream", name}};
    metric.counter.value = static_cast<double>(changes);
    out.metric.push_back(metric);
  }
  return out;
}

}  // namespace

void Metrics::count_exchange(Api api, EndStatus status, std::string_view cache,
                             std::int64_t total_us) {
  ++exchanges_[{api, status, cache}];
  const auto bucket = std::lower_bound(kBucketsUs.begin(), kBucketsUs.end(), total_us);
  ++durations_[static_cast<std::size_t>(bucket - kBucketsUs.begin())];
  duration_sum_us_ += total_us;
}

void Metrics::count_bytes(std::uint64_t request, std::uint64_t response) {
  request_bytes_ += request;
  response_bytes_ += response;
}

std::string Metrics::text(const audit::Log::Stats& log, std::uint64_t gap,
                          const Observations& observations,
                          const UpstreamFacts& upstream_facts) const {
  const auto counter = [](std::string name, std::string help, std::uint64_t value) {
    return one(std::move(name), std::move(help), MetricType::Counter, static_cast<double>(value));
  };
  const auto gauge = [](std::string name, std::string help, double value) {
    return one(std::move(name), std::move(help), MetricType::Gauge, value);
  };
  std::vector<MetricFamily> all;
  MetricFamily requests =
      family("requests_total", "Exchanges ended, by API, status and cache", MetricType::Counter);
  for (const auto& [labels, count] : exchanges_) {
    ClientMetric metric;
    metric.label = {{"api", std::string(api_name(std::get<0>(labels)))},
                    {"status", std::string(status_name(std::get<1>(labels)))},
                    {"cache", std::string(std::get<2>(labels))}};
    metric.counter.value = static_cast<double>(count);
    requests.metric.push_back(metric);
  }
  all.push_back(std::move(requests));

  MetricFamily durations = family("request_duration_seconds",
                                  "From a request's arrival to its record", MetricType::Histogram);
  ClientMetric histogram;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < durations_.size(); ++i) {
    below += durations_[i];
    const double bound = i < kBucketsUs.size() ? static_cast<double>(kBucketsUs[i]) / 1e6
                                               : std::numeric_limits<double>::infinity();
    histogram.histogram.bucket.push_back({below, bound});
  }
  histogram.histogram.sample_count = below;
  histogram.histogram.sample_sum = static_cast<double>(duration_sum_us_) / 1e6;
  durations.metric.push_back(histogram);
  all.push_back(std::move(durations));

  all.push_back(observed_family(observations));
  all.push_back(observed_normal_family(observations));
  all.push_back(changes_family(upstream_facts));

  all.push_back(counter("request_bytes_total", "Bodies of requests", request_bytes_));
  all.push_back(counter("response_bytes_total", "Bodies of responses", response_bytes_));
  all.push_back(counter("rejections_counted_total", "Rejections without leaves of their own",
                        unrecorded_rejections_));
  all.push_back(gauge("in_flight", "Exchanges under way", static_cast<double>(in_flight_)));
  all.push_back(gauge("connections", "Client connections", static_cast<double>(connections_)));
  all.push_back(gauge("unrecorded_exchanges",
                      "Answered while the log could not be written, not yet in a gap leaf",
                      static_cast<double>(gap)));
  all.push_back(counter("log_leaves_total", "Leaves written by this process", log.leaves));
  all.push_back(counter("log_commits_total", "Transactions of the log", log.commits));
  all.push_back(gauge("log_queue_drafts", "Leaves waiting", static_cast<double>(log.queue_drafts)));
  all.push_back(gauge("log_queue_bytes", "Bytes waiting", static_cast<double>(log.queue_bytes)));
  all.push_back(
      gauge("log_wal_bytes", "Size of the write-ahead log", static_cast<double>(log.wal_bytes)));
  all.push_back(gauge("log_last_commit_seconds", "Duration of the last transaction",
                      static_cast<double>(log.last_commit_us) / 1e6));
  all.push_back(gauge("log_healthy", "1 if the log can be written", log.healthy ? 1 : 0));

  std::ostringstream out;
  out.imbue(std::locale::classic());
  prometheus::TextSerializer().Serialize(out, all);
  return out.str();
}

}  // namespace verbatim::gateway
