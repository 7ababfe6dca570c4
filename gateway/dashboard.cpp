#include "gateway/dashboard.hpp"

#include "gateway/overview_metrics.hpp"
#include "schema/clock.hpp"
#include "schema/html_escape.hpp"

#include <kDashboardPage.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

namespace {

/// Names of models and verdicts come from outside. What is not seen, or turns the text around, is not shown as itself.
std::string escaped(std::string_view text) {
  std::string seen(text);
  for (char& c : seen) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) c = '?';
  }
  return escape_html(seen);
}

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

/// "12.3 %"; "0 %" and "100 %" only when exact; "-" of nothing.
std::string share(std::uint64_t count, std::uint64_t of) {
  if (of == 0) return "\xE2\x80\x93";
  if (count == 0) return "0 %";
  if (count == of) return "100 %";
  // In tenths of a percent, and never rounded to what is not so.
  const std::uint64_t tenths = std::clamp<std::uint64_t>((count * 2000 / of + 1) / 2, 1, 999);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::uint64_t tenths = bytes * 10;
  for (; tenths >= 10'240 && unit + 1 < kUnits.size(); ++unit) tenths /= 1024;
  return std::to_string(tenths / 10) + (unit == 0 ? "" : "." + std::to_string(tenths % 10)) + " " +
         kUnits[unit];
}

/// "5 s ago", "3 h ago"; "never" for 0.
std::string age(std::int64_t then_us, std::int64_t now_us) {
  if (then_us == 0) return "never";
  const std::int64_t seconds = std::max<std::int64_t>(0, (now_us - then_us) / 1'000'000);
  if (seconds < 120) return std::to_string(seconds) + " s ago";
  if (seconds < 7200) return std::to_string(seconds / 60) + " min ago";
  if (seconds < 172'800) return std::to_string(seconds / 3600) + " h ago";
  return std::to_string(seconds / 86'400) + " days ago";
}

struct Part {
  std::string name;
  const char* fill;
  std::uint64_t count = 0;
};

/// A bar in proportion, and a line for each part that there is.
std::string parts_html(const std::vector<Part>& parts) {
  std::uint64_t all = 0;
  for (const Part& part : parts) all += part.count;
  if (all == 0) return "<div class=\"bar\"></div>";
  std::string bar = "<div class=\"bar\">", rows;
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    bar += "<i class=\"" + std::string(part.fill) +
           "\" style=\"flex:" + std::to_string(part.count) + "\"></i>";
    rows += "<tr><td><span class=\"dot " + std::string(part.fill) + "\"></span>" +
            escaped(part.name) + "</td><td class=\"number\">" + grouped(part.count) +
            "</td><td class=\"number soft\">" + share(part.count, all) + "</td></tr>";
  }
  return bar + "</div><table>" + rows + "</table>";
}

std::string big(const std::string& value, const std::string& what) {
  return "<p class=\"big\">" + value + " <small>" + what + "</small></p>";
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><td class=\"soft\">" + name + "</td><td class=\"number\">" + value + "</td></tr>";
}

const char* fill_of_status(const std::string& status) {
  static const std::map<std::string, const char*> kFills = {{"complete", "good-fill"},
                                                            {"cache_hit", "cool-fill"},
                                                            {"client_disconnect", "none-fill"},
                                                            {"rejected", "none-fill"},
                                                            {"timeout", "near-fill"}};
  const auto found = kFills.find(status);
  return found == kFills.end() ? "bad-fill" : found->second;
}

const char* fill_of_verdict(const std::string& verdict) {
  static const std::map<std::string, const char*> kFills = {{"BITWISE", "good-fill"},
                                                            {"TOKEN_EXACT", "fair-fill"},
                                                            {"WITHIN_MARGIN", "near-fill"},
                                                            {"DIVERGED", "bad-fill"}};
  const auto found = kFills.find(verdict);
  return found == kFills.end() ? "none-fill" : found->second;
}

std::string state_html(const DashboardFacts& facts) {
  if (!facts.log.healthy) return "<span class=\"state bad\">the log cannot be written</span>";
  if (facts.gap > 0) {
    return "<span class=\"state bad\">" + grouped(facts.gap) + " exchanges without a record</span>";
  }
  if (facts.draining) return "<span class=\"state bad\">draining</span>";
  return "<span class=\"state good\">recording</span>";
}

/// The samples of a family in a metrics text: each with its labels, in braces or "", and its value.
std::vector<std::pair<std::string_view, double>> samples_of(std::string_view metrics,
                                                            std::string_view family) {
  std::vector<std::pair<std::string_view, double>> samples;
  while (!metrics.empty()) {
    std::string_view line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), line.size() + 1));
    if (!line.starts_with(family)) continue;
    line.remove_prefix(family.size());
    const std::size_t space = line.rfind(' ');
    if (space == std::string_view::npos || (space > 0 && line.front() != '{')) continue;
    double value = 0;
    std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    samples.emplace_back(line.substr(0, space), value);
  }
  return samples;
}

/// For labels that are words of ours, without anything escaped.
std::string label_of(std::string_view labels, const std::string& name) {
  const std::size_t at = labels.find(name + "=\"");
  if (at == std::string_view::npos) return "";
  labels.remove_prefix(at + name.size() + 2);
  return std::string(labels.substr(0, labels.find('"')));
}

double value_of(std::string_view metrics, std::string_view name) {
  const auto samples = samples_of(metrics, name);
  return samples.empty() ? 0 : samples.front().second;
}

/// Exchanges that ended, summed by one of their labels.
std::map<std::string, std::uint64_t> exchanges_by(const DashboardFacts& facts,
                                                  const std::string& label) {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [labels, value] : samples_of(facts.metrics, "verbatim_requests_total")) {
    sums[label_of(labels, label)] += static_cast<std::uint64_t>(value);
  }
  return sums;
}

std::string whole(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

std::string exchanges_html(const DashboardFacts& facts) {
  std::vector<Part> parts;
  std::uint64_t all = 0;
  for (const auto& [status, count] : exchanges_by(facts, "status")) {
    parts.push_back({status, fill_of_status(status), count});
    all += count;
  }
  const double seconds = value_of(facts.metrics, "verbatim_request_duration_seconds_sum");
  const std::string mean =
      all == 0 ? "\xE2\x80\x93" : whole(seconds * 1000 / static_cast<double>(all)) + " ms";
  return big(grouped(all),
             "ended, " + whole(value_of(facts.metrics, "verbatim_in_flight")) + " under way") +
         parts_html(parts) + "<table>" + row("mean duration", mean) +
         row("connections", whole(value_of(facts.metrics, "verbatim_connections"))) + "</table>";
}

std::string cache_html(const DashboardFacts& facts) {
  auto by_cache = exchanges_by(facts, "cache");
  const std::uint64_t hits = by_cache["hit"], misses = by_cache["miss"];
  return big(share(hits, hits + misses), "of the questions that may be cached") +
         parts_html({{"hit", "cool-fill", hits},
                     {"miss", "fair-fill", misses},
                     {"bypass", "none-fill", by_cache["bypass"]}});
}

std::string log_html(const DashboardFacts& facts) {
  const audit::Log::Stats& log = facts.log;
  std::string rows;
  if (facts.overview != nullptr) {
    rows += row("last checkpoint", age(facts.overview->grown_us(), facts.now_us));
    rows += row("log.db", bytes_text(facts.overview->file_bytes()));
  }
  rows += row("write-ahead log", bytes_text(log.wal_bytes));
  rows += row("commits", grouped(log.commits));
  rows +=
      row("the last took", grouped(static_cast<std::uint64_t>(log.last_commit_us)) + " \xC2\xB5s");
  rows += row("waiting", grouped(log.queue_drafts) + " leaves, " + bytes_text(log.queue_bytes));
  return big(grouped(log.leaves), "leaves, under one signed checkpoint") + "<table>" + rows +
         "</table>";
}

std::string newest_verdicts_html(const std::vector<audit::SeenVerdict>& recent) {
  std::string rows;
  for (auto seen = recent.rbegin(); seen != recent.rend(); ++seen) {
    rows += "<tr><td class=\"soft\">" + format_rfc3339(seen->time_us).substr(0, 19) +
            "Z</td><td><span class=\"dot " + fill_of_verdict(seen->verdict) + "\"></span>" +
            escaped(seen->verdict) + "</td><td>" + escaped(seen->reason) +
            "</td><td class=\"mono\">" + escaped(seen->record) + "</td><td class=\"number\">" +
            std::to_string(seen->index) + "</td></tr>";
  }
  return "<table><tr><th>newest verdicts</th><th>verdict</th><th>reason</th><th>record</th>"
         "<th class=\"number\">leaf</th></tr>" +
         rows + "</table>";
}

std::string replay_html(const DashboardFacts& facts) {
  if (facts.overview == nullptr) return "<p class=\"soft\">Not known here.</p>";
  std::vector<Part> parts;
  std::uint64_t all = 0;
  for (const char* name : kVerdictNames) {
    parts.push_back({name, fill_of_verdict(name), verdict_count(*facts.overview, name)});
    all += parts.back().count;
  }
  const std::uint64_t diverged = verdict_count(*facts.overview, "DIVERGED");
  const std::uint64_t compared = all - verdict_count(*facts.overview, "NOT_REPLAYABLE") -
                                 verdict_count(*facts.overview, "ERASED") -
                                 verdict_count(*facts.overview, "PRUNED");
  const auto& recent = facts.overview->recent();
  std::string html = big(
      share(diverged, compared),
      "diverged, of " + grouped(compared) + " that were compared; " + grouped(all) +
          " verdicts; the last: " + age(recent.empty() ? 0 : recent.back().time_us, facts.now_us));
  html += parts_html(parts);
  return recent.empty() ? html : html + newest_verdicts_html(recent);
}

std::string observed_html(const DashboardFacts& facts) {
  std::uint64_t same = 0, different = 0;
  std::string rows;
  for (const auto& [model, counts] : facts.observations.by_model()) {
    same += counts.same;
    different += counts.different;
    rows +=
        "<tr><td>" + escaped(model) + "</td><td class=\"number\">" + grouped(counts.same) +
        "</td><td class=\"number\">" + grouped(counts.different) + "</td><td class=\"number\">" +
        grouped(counts.incomparable) + "</td><td class=\"number\">" +
        share(counts.different, counts.same + counts.different) + "</td><td class=\"number\">" +
        share(counts.normal_different, counts.normal_same + counts.normal_different) + "</td></tr>";
  }
  const std::string lead =
      big(share(different, same + different), "of repeated answers were different");
  if (rows.empty()) {
    return lead +
           "<p class=\"soft\">None yet. In observe mode, hits are asked upstream again and "
           "compared.</p>";
  }
  return lead +
         "<table><tr><th>model</th><th class=\"number\">same</th><th "
         "class=\"number\">different</th>"
         "<th class=\"number\">not comparable</th><th class=\"number\">divergence</th>"
         "<th class=\"number\">in normal form</th></tr>" +
         rows + "</table>";
}

void put(std::string& page, std::string_view hole, const std::string& piece) {
  const std::size_t at = page.find(hole);
  VERBATIM_CHECK(at != std::string::npos);
  page.replace(at, hole.size(), piece);
}

}  // namespace

std::string dashboard(const DashboardFacts& facts) {
  // From the last hole to the first: what a piece holds is not looked at again.
  std::string page(kDashboardPage);
  put(page, "{{observed}}", observed_html(facts));
  put(page, "{{replay}}", replay_html(facts));
  put(page, "{{log}}", log_html(facts));
  put(page, "{{cache}}", cache_html(facts));
  put(page, "{{exchanges}}", exchanges_html(facts));
  put(page, "{{now}}", format_rfc3339(facts.now_us).substr(0, 19) + "Z");
  put(page, "{{state}}", state_html(facts));
  return page;
}

}  // namespace verbatim::gateway
