#include "replay/replay_report.hpp"

#include "replay/charts.hpp"
#include "replay/proportion.hpp"
#include "replay/report_parts.hpp"
#include "replay/time_line.hpp"

#include <kReplayPage.hpp>
#include <kReportStyle.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace verbatim::replay {

namespace {

constexpr std::size_t kRowsShown = 5000, kEnvironmentsShown = 3, kDivergencesShown = 24;
constexpr float kNear = 0.1F, kVeryNear = 0.01F;  // logit units: what is highlighted in a text

std::string style_of(VerdictKind kind) {
  std::string style(verdict_name(kind));
  for (char& c : style) c = c == '_' ? '_' : static_cast<char>(c - 'A' + 'a');
  return style;
}

const char* claim_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::bitwise:
      return "These weights, this request and this seed give exactly this output: every token and "
             "every logit.";
    case VerdictKind::token_exact:
      return "Every token is the engine\xE2\x80\x99s own choice; no digest of logits was recorded.";
    case VerdictKind::within_margin:
      return "Tokens differ only where two were nearly tied, no more than honest rounding "
             "explains.";
    case VerdictKind::diverged:
      return "Not reproducible from what was recorded.";
    case VerdictKind::not_replayable:
      return "Nothing; the reason is given.";
    case VerdictKind::erased:
      return "Nothing: the contents were erased on purpose.";
  }
  return "";
}

std::size_t count_of(const ReplayRun& run, VerdictKind kind) {
  return static_cast<std::size_t>(
      std::count_if(run.verdicts.begin(), run.verdicts.end(),
                    [&](const Verdict& verdict) { return verdict.kind == kind; }));
}

std::string headline(const ReplayRun& run) {
  const std::size_t all = run.verdicts.size();
  const std::size_t bitwise = count_of(run, VerdictKind::bitwise);
  const std::size_t diverged = count_of(run, VerdictKind::diverged);
  const std::size_t silent =
      count_of(run, VerdictKind::not_replayable) + count_of(run, VerdictKind::erased);
  const std::string of_all = std::to_string(all) + (all == 1 ? " record" : " records");
  if (all == 0) return "No record was selected";
  if (diverged > 0) return std::to_string(diverged) + " of " + of_all + " could not be reproduced";
  if (silent == all) return "None of " + of_all + " could be computed again";
  if (bitwise == all) return "All " + of_all + " computed again, bit for bit";
  return std::to_string(all - silent) + " of " + of_all + " computed again, and none diverged";
}

std::string lead(const ReplayRun& run) {
  std::size_t tokens = 0;
  for (const Verdict& verdict : run.verdicts) tokens += verdict.tokens;
  std::string lead = plural(tokens, "token") + " compared";
  for (const VerdictKind kind : kVerdictKinds) {
    if (const std::size_t count = count_of(run, kind); count > 0) {
      lead += ", " + std::to_string(count) + " " + std::string(verdict_name(kind));
    }
  }
  return lead + ".";
}

Html mono(const std::string& shown) { return element("span", {{"class", "mono"}}, text(shown)); }

Html facts(const ReplayRun& run) {
  FactList list;
  list.add("Selection", run.design);
  list.add("Log", run.origin);
  list.add("Its tree", text(std::to_string(run.selected.tree_size) + " leaves, root") +
                           Html("<br>") + mono(run.selected.root));
  list.add("Its key", mono(run.vkey));
  list.add("Method", run.method == "decode" ? "decode: generated again, token by token"
                                            : "score: prompt and recorded output in one prefill");
  std::vector<std::string> seen;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.engine) continue;
    const ReplayEngine& engine = *verdict.engine;
    const std::string key = engine.profile + engine.backend + engine.build + engine.weights_sha256;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    list.add("Engine", text(engine.profile + ", " + engine.backend + ", build " + engine.build) +
                           Html("<br>weights ") + mono(engine.weights_sha256));
  }
  list.add("Self-check",
           run.engines_checked == 0
               ? "no engine was needed in this run"
               : plural(run.engines_checked, "engine") +
                     " passed before judging: the same bits alone, in a batch, and in one prefill");
  const auto resumed = static_cast<std::size_t>(std::count_if(
      run.verdicts.begin(), run.verdicts.end(), [](const Verdict& v) { return v.resumed; }));
  if (resumed > 0)
    list.add("Taken over", plural(resumed, "verdict") + " of an earlier run by the same engine");
  return list.html();
}

Html shares(const ReplayRun& run) {
  std::vector<Part> parts;
  for (const VerdictKind kind : kVerdictKinds) {
    parts.push_back({std::string(verdict_name(kind)), style_of(kind), count_of(run, kind)});
  }
  return run.verdicts.empty() ? Html() : share_bar(parts, "Share of each verdict");
}

Html verdict_rows(const ReplayRun& run) {
  const bool sampled = run.selected.matching > run.verdicts.size();
  Html rows;
  for (const VerdictKind kind : kVerdictKinds) {
    const std::size_t count = count_of(run, kind);
    if (count == 0 && kind != VerdictKind::bitwise && kind != VerdictKind::diverged) continue;
    const Proportion share = wilson(count, run.verdicts.size());
    Html row =
        element("td", {{"class", "nowrap"}}, swatch(style_of(kind)) + text(verdict_name(kind))) +
        number_cell(std::to_string(count)) + number_cell(percent(share.share));
    if (sampled) row += number_cell(percent(share.low) + " to " + percent(share.high));
    rows += element("tr", row + cell(text(claim_of(kind))));
  }
  return sampled ? table(head({{"verdict", ""},
                               {"records", "number"},
                               {"share", "number"},
                               {"95 % interval for all", "number"},
                               {"what may be claimed", ""}}),
                         rows)
                 : table(head({{"verdict", ""},
                               {"records", "number"},
                               {"share", "number"},
                               {"what may be claimed", ""}}),
                         rows);
}

Html reasons(const ReplayRun& run) {
  std::map<std::pair<VerdictKind, std::string>, std::size_t> counts;
  for (const Verdict& verdict : run.verdicts) {
    if (!verdict.reason.empty()) ++counts[{verdict.kind, verdict.reason}];
  }
  if (counts.empty()) return {};
  Html rows;
  for (const auto& [key, count] : counts) {
    rows += element("tr", element("td", {{"class", "nowrap"}},
                                  swatch(style_of(key.first)) + text(verdict_name(key.first))) +
                              cell(element("code", text(key.second))) +
                              number_cell(std::to_string(count)));
  }
  return Html("<h3 style=\"margin-top:1.6rem\">Reasons</h3>") +
         table(head({{"verdict", ""}, {"reason", ""}, {"records", "number"}}), rows);
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

Html timeline(const ReplayRun& run) {
  const TimeLine line = time_line(run);
  if (line.columns.empty()) return Html("<p>No record in this run has a time.</p>");
  ColumnChart chart;
  chart.title = "Records over time, by verdict";
  for (const VerdictKind kind : kVerdictKinds) chart.styles.push_back(style_of(kind));
  constexpr std::int64_t kDayUs = 86'400'000'000;
  const std::size_t every = line.columns.size() / 7 + 1;
  for (std::size_t i = 0; i < line.columns.size(); ++i) {
    Column column;
    const std::string time =
        format_rfc3339(line.start_us + static_cast<std::int64_t>(i) * line.column_us);
    if (i % every == 0) {
      column.label = line.column_us >= kDayUs ? time.substr(0, 10)
                                              : time.substr(5, 5) + " " + time.substr(11, 5);
    }
    column.counts.assign(line.columns[i].begin(), line.columns[i].end());
    chart.columns.push_back(std::move(column));
  }
  Html list;
  for (const EnvironmentChange& change : line.changes) {
    const double at =
        static_cast<double>(change.time_us - line.start_us) / static_cast<double>(line.column_us);
    if (at >= 0 && at <= static_cast<double>(line.columns.size())) {
      chart.events.push_back({at, shortened(joined(change.facts), 28)});
    }
    list += element("li", text(format_rfc3339(change.time_us).substr(0, 19) + "Z, leaf " +
                               std::to_string(change.index) + ": " + joined(change.facts)));
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

/// Where a margin stands on the histogram's axis, counted in columns.
double place_of(float margin) {
  const auto& edges = MarginCounts::kEdges;
  const double at =
      (std::log10(static_cast<double>(margin)) - std::log10(static_cast<double>(edges.front()))) *
          2 +
      1;
  return std::clamp(at, 0.0, static_cast<double>(MarginCounts::kClasses));
}

Html margins(const ReplayRun& run) {
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
  std::uint64_t total = 0, near = 0;
  for (std::size_t i = 0; i < MarginCounts::kClasses; ++i) {
    chart.columns.push_back({i % 2 == 1 ? kLabels[i / 2] : "", {counts.counts()[i]}});
    total += counts.counts()[i];
    if (i == 0 || MarginCounts::kEdges[i - 1] < kVeryNear) near += counts.counts()[i];
  }
  for (const Verdict& verdict : run.verdicts) {
    float threshold = 0;
    if (verdict.tolerance) threshold = parsed_decimal(verdict.tolerance->threshold).value_or(0);
    if (threshold > 0) {
      chart.limit = place_of(threshold);
      chart.limit_label = "threshold " + verdict.tolerance->threshold;
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
                                               "rounding could choose otherwise.")));
}

std::string traced_text(const Verdict& verdict, std::size_t from, std::size_t to) {
  std::string all;
  for (std::size_t i = from; i < std::min(to, verdict.trace.size()); ++i)
    all += verdict.trace[i].text;
  return all;
}

/// The recorded answer and the engine's choice as two branches.
Html divergence_tree(const Verdict& verdict) {
  const std::size_t at = *verdict.position;
  const std::string before = traced_text(verdict, 0, at);
  const std::string recorded = before + traced_text(verdict, at, verdict.trace.size());
  const Clustering two =
      cluster_answers({{recorded, "", {}, "", ""}, {before + verdict.got_text, "", {}, "", ""}});
  return element("figure", fork_tree(two));
}

Html divergence_card(const ReplayRun& run, const Verdict& verdict) {
  FactList list;
  list.add("Record", mono(verdict.record.str()));
  list.add("Reason", verdict.reason + (verdict.detail.empty() ? "" : ": " + verdict.detail));
  if (verdict.position) {
    list.add("Place", "token " + std::to_string(*verdict.position) +
                          (verdict.character
                               ? ", byte " + std::to_string(*verdict.character) + " of the text"
                               : ""));
  } else if (verdict.character) {
    list.add("Place", "byte " + std::to_string(*verdict.character) + " of the text");
  }
  if (run.with_texts && verdict.expected && !verdict.expected_text.empty()) {
    list.add("Recorded token", element("code", text(verdict.expected_text)) +
                                   text("  id " + std::to_string(*verdict.expected)));
  }
  if (run.with_texts && verdict.got && !verdict.got_text.empty()) {
    list.add("Engine\xE2\x80\x99s choice", element("code", text(verdict.got_text)) +
                                               text("  id " + std::to_string(*verdict.got)));
  }
  if (verdict.deficit) list.add("Deficit", decimal(*verdict.deficit) + " logit units");
  Html card = list.html();
  if (run.with_texts && verdict.reason == "token" && verdict.position && !verdict.trace.empty() &&
      !verdict.got_text.empty()) {
    card += divergence_tree(verdict);
  }
  return element("div", {{"class", "card"}}, card);
}

Html divergences(const ReplayRun& run) {
  Html cards;
  std::size_t shown = 0;
  for (const Verdict& verdict : run.verdicts) {
    if (verdict.kind != VerdictKind::diverged || shown == kDivergencesShown) continue;
    ++shown;
    cards += divergence_card(run, verdict);
  }
  if (cards.empty()) return {};
  const std::size_t all = count_of(run, VerdictKind::diverged);
  if (all > shown) {
    cards += element("p", {{"class", "note"}},
                     text(std::to_string(all - shown) + " more are in the table below."));
  }
  return element("section", Html("<h2>What diverged</h2>") + cards);
}

Html said(const Verdict& verdict) {
  Html html;
  for (const TracedToken& token : verdict.trace) {
    if (token.text.empty()) continue;
    const char* style = !token.chosen              ? "other"
                        : token.margin < kVeryNear ? "near very"
                        : token.margin < kNear     ? "near"
                                                   : nullptr;
    html += style == nullptr ? text(token.text)
                             : element("span",
                                       {{"class", style},
                                        {"title", "margin " + decimal(token.margin) + ", deficit " +
                                                      decimal(token.deficit)}},
                                       text(token.text));
  }
  return html;
}

Html texts(const ReplayRun& run) {
  if (!run.with_texts)
    return Html("<p>Recorded texts were left out of this report on purpose.</p>");
  Html cards;
  std::size_t shown = 0, compared = 0;
  for (const Verdict& verdict : run.verdicts) {
    compared += verdict.tokens > 0 ? 1 : 0;
    if (verdict.trace.empty()) continue;
    ++shown;
    float smallest = std::numeric_limits<float>::infinity();
    for (const TracedToken& token : verdict.trace) smallest = std::min(smallest, token.margin);
    cards +=
        element("div", {{"class", "card"}, {"id", "r-" + verdict.record.str()}},
                element("p", {{"class", "meta"}},
                        swatch(style_of(verdict.kind)) +
                            text(std::string(verdict_name(verdict.kind)) + " \xC2\xB7 " +
                                 verdict.model + " \xC2\xB7 " + plural(verdict.tokens, "token") +
                                 " \xC2\xB7 smallest margin " + decimal(smallest) + " \xC2\xB7 ") +
                            mono(verdict.record.str())) +
                    element("p", {{"class", "said"}}, said(verdict)));
  }
  if (cards.empty()) return Html("<p>No text was computed again in this run.</p>");
  Html legend = Html(
      "<p class=\"note\"><span class=\"said\"><span class=\"near\">Shaded</span></span>: another "
      "token was within 0.1 "
      "logit units. <span class=\"said\"><span class=\"near very\">Underlined</span></span>: "
      "within 0.01. "
      "<span class=\"said\"><span class=\"other\">Inverted</span></span>: not the engine&rsquo;s "
      "choice.</p>");
  if (shown < compared) {
    legend += element(
        "p", {{"class", "note"}},
        text("The " + std::to_string(shown) + " of " + std::to_string(compared) +
             " texts that need a look first: the worst verdicts, then the smallest margins."));
  }
  return legend + cards;
}

Html environments(const ReplayRun& run) {
  std::vector<const RecordedEnvironment*> shown;
  for (const auto& [index, environment] : run.environments) shown.push_back(&environment);
  if (shown.size() > kEnvironmentsShown)
    shown.erase(shown.begin(), shown.end() - kEnvironmentsShown);
  if (shown.empty()) return Html("<p>The records name no environment.</p>");
  Html heads = element("th", text("fact")) + element("th", text("replayed here"));
  for (const auto* environment : shown) {
    heads += element("th", text("recorded, leaf " + std::to_string(environment->index)));
  }
  std::map<std::string, bool> names;
  for (const auto& [name, value] : run.here) names[name] = true;
  for (const auto* environment : shown) {
    for (const auto& [name, value] : environment->facts) names[name] = true;
  }
  Html rows;
  for (const auto& [name, unused] : names) {
    const auto here = run.here.find(name);
    const std::string own = here == run.here.end() ? "" : here->second;
    Html row = cell(text(name)) + cell(text(own));
    for (const auto* environment : shown) {
      const auto there = environment->facts.find(name);
      const std::string value = there == environment->facts.end() ? "" : there->second;
      row += element("td", {{"class", value == own ? "" : "differs"}},
                     value == own ? Html("<span class=\"note\">the same</span>") : text(value));
    }
    rows += element("tr", row);
  }
  Html html = table(element("thead", element("tr", heads)), rows);
  if (run.environments.size() > shown.size()) {
    html += element("p", {{"class", "note"}},
                    text("The newest " + std::to_string(shown.size()) + " of " +
                         std::to_string(run.environments.size()) + " environments."));
  }
  return html;
}

Html record_row(const ReplayRun& run, const Verdict& verdict) {
  const std::string id = verdict.record.str();
  const bool linked = run.with_texts && !verdict.trace.empty();
  std::string where = verdict.reason;
  if (verdict.position) where += " at token " + std::to_string(*verdict.position);
  if (verdict.origin)
    where += (where.empty() ? "" : ", ") + std::string("cache hit of ") + verdict.origin->str();
  return element(
      "tr",
      cell(linked ? element("a", {{"href", "#r-" + id}, {"class", "mono"}}, text(id)) : mono(id)) +
          element("td", {{"class", "nowrap"}},
                  text(verdict.time_us == 0 ? "" : format_rfc3339(verdict.time_us).substr(0, 19))) +
          cell(text(verdict.model)) +
          element("td", {{"class", "nowrap"}},
                  swatch(style_of(verdict.kind)) + text(verdict_name(verdict.kind))) +
          cell(text(where)) + number_cell(std::to_string(verdict.tokens)) +
          number_cell(verdict.response_index ? std::to_string(*verdict.response_index) : ""));
}

Html records(const ReplayRun& run) {
  Html rows;
  for (std::size_t i = 0; i < std::min(kRowsShown, run.verdicts.size()); ++i)
    rows += record_row(run, run.verdicts[i]);
  Html html = table(head({{"record", ""},
                          {"asked (UTC)", ""},
                          {"model", ""},
                          {"verdict", ""},
                          {"reason", ""},
                          {"tokens", "number"},
                          {"leaf", "number"}}),
                    rows);
  if (run.verdicts.size() > kRowsShown) {
    html += element("p", {{"class", "note"}},
                    text(std::to_string(run.verdicts.size() - kRowsShown) +
                         " more are in the CSV file and the JSON output."));
  }
  return html;
}

}  // namespace

std::string replay_report(const ReplayRun& run) {
  return fill(kReplayPage,
              {{"title", text("Replay of " + run.origin + ": " + headline(run))},
               {"style", embed(kReportStyle)},
               {"headline", text(headline(run))},
               {"lead", text(lead(run))},
               {"facts", facts(run)},
               {"shares", shares(run)},
               {"verdicts", verdict_rows(run)},
               {"reasons", reasons(run)},
               {"timeline", timeline(run)},
               {"margins", margins(run)},
               {"divergences", divergences(run)},
               {"texts", texts(run)},
               {"environments", environments(run)},
               {"records", records(run)},
               {"made", text("Made " + run.made + " by verbatim " + VERBATIM_VERSION + ".")}});
}

}  // namespace verbatim::replay
