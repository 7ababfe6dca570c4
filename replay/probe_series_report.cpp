// A series of probes as one HTML file.

#include "replay/charts.hpp"
#include "replay/probe_series.hpp"
#include "replay/report_parts.hpp"
#include "schema/clock.hpp"

#include <kProbeSeriesPage.hpp>
#include <kReportStyle.hpp>

#include <algorithm>
#include <array>

namespace verbatim::replay {

namespace {

constexpr std::size_t kRunsDrawn = 60, kRunsListed = 400, kClustersDrawn = 24;

std::string minute_of(std::int64_t time_us) {
  const std::string time = format_rfc3339(time_us);
  return time.substr(0, 10) + " " + time.substr(11, 5);
}

/// A run's answers, seen from its baseline.
struct Seen {
  std::size_t usual = 0;    ///< the baseline's most frequent answer to their question
  std::size_t known = 0;    ///< another one that the baseline gave
  std::size_t unknown = 0;  ///< none of the baseline's
  std::size_t missing = 0;
};

Seen seen_from(const SeriesRun& run, const SeriesRun& baseline) {
  Seen seen;
  seen.missing = run.asked() - run.answered();
  for (std::size_t i = 0; i < run.questions.size() && i < baseline.questions.size(); ++i) {
    const std::vector<std::string>& before = baseline.questions[i].texts;
    for (const SeriesPhase& phase : run.questions[i].phases) {
      for (const std::size_t answer : phase.answers) {
        const auto at = std::find(before.begin(), before.end(), run.questions[i].texts[answer]);
        if (at == before.end()) ++seen.unknown;
        if (at == before.begin() && at != before.end()) ++seen.usual;
        if (at != before.begin() && at != before.end()) ++seen.known;
      }
    }
  }
  return seen;
}

class SeriesReport {
 public:
  explicit SeriesReport(const std::vector<SeriesRun>& runs) : runs_(runs) {}

  std::string page(const std::string& made) const {
    const SeriesRun& last = runs_.back();
    return fill(kProbeSeriesPage,
                {{"title", text("Series of probes of " + last.model + ": " + headline())},
                 {"style", embed(kReportStyle)},
                 {"headline", text(headline())},
                 {"lead", text(lead())},
                 {"facts", facts()},
                 {"chart", chart()},
                 {"parting", parting()},
                 {"runs", table_of_runs()},
                 {"made", text("Made " + made + " by verbatim " + VERBATIM_VERSION + ".")}});
  }

 private:
  [[nodiscard]] const SeriesRun& baseline_of(const SeriesRun& run) const {
    const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const SeriesRun& each) {
      return each.time_us == run.baseline_us;
    });
    return found == runs_.end() ? run : *found;
  }

  [[nodiscard]] std::string headline() const {
    const SeriesRun& last = runs_.back();
    if (last.is_baseline()) return "A baseline, and nothing to compare with it yet";
    if (last.answers_changed()) return "The answers have changed";
    if (last.answering_changed()) return "How many questions are answered has changed";
    if (last.changed()) return "The endpoint says that it has changed";
    return last.undecided() ? "Too few answers to say" : "No change since the baseline";
  }

  [[nodiscard]] std::string lead() const {
    const auto changes = std::count_if(runs_.begin(), runs_.end(),
                                       [](const SeriesRun& run) { return run.changed(); });
    return series_sentence(runs_.back()) + ". " + plural(runs_.size(), "run") + ", of which " +
           std::to_string(changes) + " found a change.";
  }

  [[nodiscard]] Html facts() const {
    const SeriesRun& last = runs_.back();
    FactList list;
    list.add("Endpoint", last.url);
    list.add("API", last.api);
    list.add("Model, as asked for", last.model);
    list.add("Questions", std::to_string(last.questions.size()));
    list.add("Baseline", minute_of(last.baseline_us) + " UTC");
    list.add_counts("Model, as answered", last.models);
    list.add_counts("Finish reason", last.finish_reasons);
    list.add_counts("system_fingerprint", last.fingerprints);
    for (const auto& [kind, count] : last.failures) {
      list.add("No answer", kind + ", " + plural(count, "time"));
    }
    return list.html();
  }

  [[nodiscard]] Html chart() const {
    ColumnChart chart;
    chart.title = "Answers of each run, seen from its baseline";
    chart.styles = {"s0", "s3", "s1", "s5"};
    const std::size_t from = runs_.size() > kRunsDrawn ? runs_.size() - kRunsDrawn : 0;
    const std::size_t every = (runs_.size() - from) / 6 + 1;
    for (std::size_t i = from; i < runs_.size(); ++i) {
      const Seen seen = seen_from(runs_[i], baseline_of(runs_[i]));
      Column column;
      if ((i - from) % every == 0) column.label = minute_of(runs_[i].time_us).substr(5);
      column.counts = {seen.usual, seen.known, seen.unknown, seen.missing};
      chart.columns.push_back(std::move(column));
      const auto at = static_cast<double>(i - from);
      if (runs_[i].is_baseline()) chart.events.push_back({at, "baseline"});
      if (i > 0 && runs_[i].changed() && !runs_[i - 1].changed()) {
        chart.events.push_back({at, "changed"});
      }
    }
    static constexpr std::array<std::pair<const char*, const char*>, 4> kParts = {
        {{"s0", "the baseline\xE2\x80\x99s most frequent answer"},
         {"s3", "another answer of the baseline"},
         {"s1", "an answer that the baseline does not have"},
         {"s5", "no answer"}}};
    Html legend;
    for (const auto& [style, name] : kParts) {
      legend += element("span", {{"style", "margin-right:1.4rem;white-space:nowrap"}},
                        swatch(style) + text(name));
    }
    return element("figure", column_chart(chart) + element("figcaption", legend));
  }

  /// The forks between the newest answers and the baseline's, of the first question that has any.
  [[nodiscard]] Html parting() const {
    const SeriesRun& last = runs_.back();
    const SeriesRun& baseline = baseline_of(last);
    for (std::size_t i = 0; i < last.questions.size() && i < baseline.questions.size(); ++i) {
      const SeriesQuestion &now = last.questions[i], &before = baseline.questions[i];
      const Html tree = tree_of(before, last.is_baseline() ? SeriesQuestion() : now);
      if (tree.empty()) continue;
      return element("div", {{"class", "card"}},
                     element("pre", {{"class", "said"}}, text(now.request))) +
             element("figure",
                     tree + element("figcaption", text("How often each answer was given: in the "
                                                       "baseline \xE2\x86\x92 in the newest run. "
                                                       "Colours are those of the chart above.")));
    }
    std::size_t answers = 0;
    for (const SeriesQuestion& each : last.questions) answers += each.texts.size();
    return answers == 0 ? Html("<p>The newest run has no answer.</p>")
                        : Html(
                              "<p>Nowhere: to each question there is one answer, then and "
                              "now.</p>");
  }

  [[nodiscard]] static Html tree_of(const SeriesQuestion& before, const SeriesQuestion& now) {
    std::vector<AnswerText> answers;
    std::size_t first_now = 0;
    for (const SeriesQuestion* side : {&before, &now}) {
      if (side == &now) first_now = answers.size();
      for (const SeriesPhase& phase : side->phases) {
        for (const std::size_t answer : phase.answers) {
          answers.push_back({side->texts[answer], "", {}, "", ""});
        }
      }
    }
    Clustering clustering = cluster_answers(answers);
    if (clustering.clusters.size() > kClustersDrawn) {
      return element("p", text(plural(clustering.clusters.size(), "different answer") +
                               ": too many to draw."));
    }
    std::vector<std::string> names;
    std::vector<std::size_t> colours;  // those of the chart above
    for (const Cluster& cluster : clustering.clusters) {
      const auto then = static_cast<std::size_t>(
          std::lower_bound(cluster.answers.begin(), cluster.answers.end(), first_now) -
          cluster.answers.begin());
      names.push_back(std::to_string(then) + " \xE2\x86\x92 " +
                      std::to_string(cluster.answers.size() - then));
      const bool usual = !before.texts.empty() && cluster.text == before.texts.front();
      colours.push_back(usual ? 0 : then > 0 ? 3 : 1);
    }
    return fork_tree(clustering, names, "(ends here)", colours);
  }

  [[nodiscard]] Html table_of_runs() const {
    Html rows;
    const std::size_t shown = std::min(runs_.size(), kRunsListed);
    for (std::size_t i = 0; i < shown; ++i) rows += row_of(runs_[runs_.size() - 1 - i]);
    Html html = table(head({{"time (UTC)", ""},
                            {"asked", "number"},
                            {"answered", "number"},
                            {"as usual", "number"},
                            {"95 % interval", "number"},
                            {"new answers", "number"},
                            {"MMD\xC2\xB2", "number"},
                            {"p", "number"},
                            {"finding", ""}}),
                      rows);
    if (shown < runs_.size()) {
      html += element("p", {{"class", "note"}},
                      text(plural(runs_.size() - shown, "older run") + " not shown."));
    }
    return html;
  }

  [[nodiscard]] Html row_of(const SeriesRun& run) const {
    const Seen seen = seen_from(run, baseline_of(run));
    const Proportion usual = wilson(seen.usual, run.answered());
    std::string finding = run.undecided() ? "undecided" : "no change";
    if (run.is_baseline()) finding = "baseline";
    if (run.answering_changed()) finding = "how many are answered changed";
    if (run.answers_changed()) {
      finding = run.answering_changed() ? "answers changed, " + finding : "answers changed";
    }
    for (const std::string& fingerprint : run.new_fingerprints) {
      finding += ", new system_fingerprint " + fingerprint;
    }
    for (const std::string& model : run.new_models) finding += ", new model name " + model;
    for (const std::string& reason : run.new_finish_reasons) {
      finding += ", new finish reason " + reason;
    }
    const bool any = run.answered() > 0;
    return element("tr",
                   element("td", {{"class", "nowrap"}}, text(minute_of(run.time_us))) +
                       number_cell(std::to_string(run.asked())) +
                       number_cell(std::to_string(run.answered())) +
                       number_cell(any ? percent(usual.share) : "") +
                       number_cell(any && !run.is_baseline()
                                       ? percent(usual.low) + " to " + percent(usual.high)
                                       : "") +
                       number_cell(std::to_string(seen.unknown)) +
                       number_cell(run.test ? fixed(run.test->result.mmd2, 4) : "") +
                       number_cell(run.test ? fixed(run.test->result.p_value, 4) : "") +
                       cell(run.changed() ? element("span", {{"class", "differs"}}, text(finding))
                                          : text(finding)));
  }

  const std::vector<SeriesRun>& runs_;
};

}  // namespace

std::string series_report(const std::vector<SeriesRun>& runs, const std::string& made) {
  VERBATIM_CHECK(!runs.empty());
  return SeriesReport(runs).page(made);
}

}  // namespace verbatim::replay
