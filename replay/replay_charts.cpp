#include "replay/charts.hpp"
#include "replay/replay_sections.hpp"
#include "replay/report_parts.hpp"
#include "replay/time_line.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace verbatim::replay {

namespace {

/// As much of a time as tells columns of that length apart.
std::string label_of(const std::string& rfc3339, std::int64_t column_us) {
  constexpr std::int64_t kMinuteUs = 60'000'000, kDayUs = 86'400'000'000;
  if (column_us >= kDayUs) return rfc3339.substr(0, 10);
  if (column_us < kMinuteUs) return rfc3339.substr(11, 8);
  return rfc3339.substr(5, 5) + " " + rfc3339.substr(11, 5);
}

/// Where a margin stands on the histogram's axis, counted in columns.
double place_of(float margin) {
  const auto& edges = MarginCounts::kEdges;
  const double at =
      (std::log10(static_cast<double>(margin)) - std::log10(static_cast<double>(edges.front()))) *
          2 +
      1;
  return std::clamp(at, 0.0, static_cast<double>(MarginCounts::kClasses));
}

}  // namespace

std::string style_of(VerdictKind kind) {
  std::string style(verdict_name(kind));
  for (char& c : style) c = c == '_' ? '_' : static_cast<char>(c - 'A' + 'a');
  return style;
}

Html time_line_section(const ReplayRun& run) {
  const TimeLine line = time_line(run);
  if (line.columns.empty()) return Html("<p>No record in this run has a time.</p>");
  ColumnChart chart;
  chart.title = "Records over time, by verdict";
  for (const VerdictKind kind : kVerdictKinds) chart.styles.push_back(style_of(kind));
  const std::size_t every = line.columns.size() / 7 + 1;
  for (std::size_t i = 0; i < line.columns.size(); ++i) {
    Column column;
    const std::string time =
        format_rfc3339(line.start_us + static_cast<std::int64_t>(i) * line.column_us);
    if (i % every == 0) column.label = label_of(time, line.column_us);
    column.counts.assign(line.columns[i].begin(), line.columns[i].end());
    chart.columns.push_back(std::move(column));
  }
  Html list;
  for (const EnvironmentChange& change : line.changes) {
    const double at =
        static_cast<double>(change.time_us - line.start_us) / static_cast<double>(line.column_us);
    if (at >= 0 && at <= static_cast<double>(line.columns.size())) {
      chart.events.push_back({at, shortened(joined(change.facts, ", "), 28)});
    }
    list += element("li", text(format_rfc3339(change.time_us).substr(0, 19) + "Z, leaf " +
                               std::to_string(change.index) + ": " + joined(change.facts, ", ")));
  }
  Html html = element(
      "figure",
      column_chart(chart) +
          element("figcaption", text("Records by the time of their request (UTC), coloured by "
                                     "verdict. Dashed: the recording machine changed.")));
  if (!list.empty())
    html += Html("<h3>Changes of the recording machine</h3>") + element("ul", list);
  return html;
}

Html margins_section(const ReplayRun& run) {
  MarginCounts counts;
  for (const Verdict& verdict : run.verdicts) counts.add(verdict.margins);
  if (counts.empty()) return Html("<p>No token was compared.</p>");
  static constexpr std::array kLabels = {"10\xE2\x81\xBB\xE2\x81\xB6",
                                         "10\xE2\x81\xBB\xE2\x81\xB5",
                                         "10\xE2\x81\xBB\xE2\x81\xB4",
                                         "0.001",
                                         "0.01",
                                         "0.1",
                                         "1",
                                         "10",
                                         "100"};
  ColumnChart chart;
  chart.title = "Tokens by margin";
  chart.styles = {"bar"};
  chart.gaps = false;
  const std::uint64_t total = counts.total(), near = counts.below(kVeryNear);
  for (std::size_t i = 0; i < MarginCounts::kClasses; ++i) {
    chart.columns.push_back({i % 2 == 1 ? kLabels[i / 2] : "", {counts.counts()[i]}});
  }
  std::string limit;
  for (const Verdict& verdict : run.verdicts) {
    float threshold = 0;
    if (verdict.tolerance) threshold = parsed_decimal(verdict.tolerance->threshold).value_or(0);
    if (threshold > 0) {
      chart.limit = place_of(threshold);
      chart.limit_label = "largest honest deficit " + verdict.tolerance->threshold;
      limit =
          " The line is the calibration\xE2\x80\x99s limit for deficits: only tokens with a "
          "smaller margin can be flipped by rounding and stay within it.";
      break;
    }
  }
  return element(
      "figure", column_chart(chart) +
                    element("figcaption", text("Margin of each of " + plural(total, "token") +
                                               ": the best score minus the runner-up\xE2\x80\x99s, "
                                               "in logit units, on a logarithmic scale. " +
                                               std::to_string(near) + (near == 1 ? " is" : " are") +
                                               " below 0.01: there another kernel\xE2\x80\x99s "
                                               "rounding could choose otherwise." +
                                               limit)));
}

}  // namespace verbatim::replay
