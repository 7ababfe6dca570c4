// What a series says: to scripts, to people, and to a monitoring system.

#include "replay/probe_series.hpp"
#include "replay/report_parts.hpp"
#include "schema/clock.hpp"

#include <algorithm>

namespace verbatim::replay {

namespace {

constexpr std::size_t kToldCharactersMax = 100;

std::string seconds_of(std::int64_t time_us) { return format_rfc3339(time_us).substr(0, 19) + "Z"; }

/// A label's value: backslash, quote and line feed are escaped (Prometheus text format 0.0.4).
std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

/// Answers equal to the first text of their question, which is its most frequent one.
Proportion identical_in(const SeriesRun& run) {
  std::size_t same = 0;
  for (const SeriesQuestion& question : run.questions) {
    for (const SeriesPhase& phase : question.phases) {
      same += static_cast<std::size_t>(
          std::count(phase.answers.begin(), phase.answers.end(), std::size_t{0}));
    }
  }
  return wilson(same, run.answered());
}

std::size_t distinct_in(const SeriesRun& run) {
  std::size_t distinct = 0;
  for (const SeriesQuestion& question : run.questions) distinct += question.texts.size();
  return distinct;
}

OrderedJson test_json(const char* kind, const SeriesTest& test) {
  return {{"kind", kind},
          {"mmd2", test.result.mmd2},
          {"p_value", test.result.p_value},
          {"false_positive_rate", test.alpha},
          {"smallest_p_value", test.smallest_p_value},
          {"permutations", test.permutations},
          {"seed", test.seed},
          {"before", test.result.before},
          {"now", test.result.now}};
}

std::string shown(const std::string& told) { return shortened(told, kToldCharactersMax); }

/// What is no alarm, but should be known: what answers are by, and how they end.
std::string told_notes(const SeriesRun& run) {
  std::string notes;
  const auto note = [&](const char* name, const std::map<std::string, std::size_t>& told,
                        const std::vector<std::string>& news) {
    if (told.size() > 1) notes += "; " + std::to_string(told.size()) + " different " + name + "s";
    if (!news.empty()) notes += std::string("; new ") + name + " " + shown(news.front());
  };
  note("model name", run.models, run.new_models);
  note("finish reason", run.finish_reasons, run.new_finish_reasons);
  return notes;
}

}  // namespace

OrderedJson series_json(const SeriesRun& run) {
  OrderedJson reasons = OrderedJson::array();
  if (run.answers_changed()) reasons.push_back("answers");
  if (run.answering_changed()) reasons.push_back("answered");
  if (!run.new_fingerprints.empty()) reasons.push_back("system_fingerprint");
  OrderedJson json = {{"time", format_rfc3339(run.time_us)},
                      {"baseline", format_rfc3339(run.baseline_us)},
                      {"is_baseline", run.is_baseline()},
                      {"questions", run.questions.size()},
                      {"n", run.asked()},
                      {"answered", run.answered()},
                      {"distinct", distinct_in(run)},
                      {"identical", identical_in(run).share},
                      {"changed", run.changed()},
                      {"undecided", run.undecided()},
                      {"reasons", std::move(reasons)},
                      {"new_fingerprints", run.new_fingerprints},
                      {"models", counts_json(run.models, "model")},
                      {"new_models", run.new_models},
                      {"finish_reasons", counts_json(run.finish_reasons, "finish_reason")},
                      {"new_finish_reasons", run.new_finish_reasons},
                      {"questions_open", run.questions_open()},
                      {"test", OrderedJson()},
                      {"answered_test", OrderedJson()}};
  if (run.test) json["test"] = test_json("mmd-hamming", *run.test);
  if (run.answered_test) json["answered_test"] = test_json("mmd-answered", *run.answered_test);
  return json;
}

std::string series_sentence(const SeriesRun& run) {
  const std::string answers = plural(run.answered(), "answer");
  if (run.is_baseline()) {
    return "baseline: " + answers + " to " + plural(run.questions.size(), "question") +
           told_notes(run);
  }
  std::string sentence = run.changed() ? "CHANGED since" : "no change since";
  if (run.undecided()) sentence = "UNDECIDED: too few answers to compare with";
  sentence += " the baseline of " + seconds_of(run.baseline_us) + ": ";
  if (run.test) {
    sentence += "p = " + ecmascript_number(run.test->result.p_value) +
                " at a false-positive rate of " + ecmascript_number(run.test->alpha) + ", " +
                plural(run.test->result.now, "answer") + " against " +
                std::to_string(run.test->result.before);
    if (!run.test->can_alarm()) {
      sentence += ", of which no p below " + fixed(run.test->smallest_p_value, 4) + " can come";
    }
  } else {
    sentence += answers + " of " + std::to_string(run.asked()) + " asked";
  }
  if (run.answering_changed()) {
    sentence += "; how many questions are answered has changed, now " +
                std::to_string(run.answered()) + " of " + std::to_string(run.asked()) +
                ": p = " + ecmascript_number(run.answered_test->result.p_value);
  }
  if (const std::size_t open = run.questions_open(); open > 0 && run.test) {
    sentence += "; too few answers to " + std::to_string(open) + " of " +
                plural(run.questions.size(), "question");
  }
  if (!run.new_fingerprints.empty()) {
    sentence += "; new system_fingerprint " + shown(run.new_fingerprints.front());
  }
  return sentence + told_notes(run);
}

std::string series_metrics(const std::vector<SeriesRun>& runs, const std::string& name) {
  if (runs.empty()) return "";
  const SeriesRun& last = runs.back();
  const std::string labels =
      "{series=\"" + label_value(name) + "\",model=\"" + label_value(last.model) + "\"} ";
  std::string text;
  const auto tell = [&](const std::string& metric, const char* type, const char* help,
                        const std::string& value) {
    const std::string full = "verbatim_probe_" + metric;
    text += "# HELP " + full + " " + help + "\n# TYPE " + full + " " + type + "\n" + full + labels +
            value + "\n";
  };
  const auto changes =
      std::count_if(runs.begin(), runs.end(), [](const SeriesRun& run) { return run.changed(); });
  tell("runs_total", "counter", "Runs in the series.", std::to_string(runs.size()));
  tell("changed_total", "counter", "Runs that found a change since their baseline.",
       std::to_string(changes));
  tell("last_changed", "gauge", "1 if the last run found a change since its baseline.",
       last.changed() ? "1" : "0");
  tell("last_undecided", "gauge", "1 if too few answers came to the last run to say.",
       last.undecided() ? "1" : "0");
  if (last.test) {
    tell("last_p_value", "gauge", "Of the last run's test against its baseline.",
         ecmascript_number(last.test->result.p_value));
    tell("last_mmd2", "gauge", "Squared maximum mean discrepancy to the baseline.",
         ecmascript_number(last.test->result.mmd2));
  }
  if (last.answered_test) {
    tell("last_answered_p_value", "gauge",
         "Of the last run's test of whether questions are answered as in its baseline.",
         ecmascript_number(last.answered_test->result.p_value));
  }
  tell("last_new_fingerprints", "gauge", "system_fingerprints that the baseline was not told.",
       std::to_string(last.new_fingerprints.size()));
  tell("last_asked", "gauge", "Questions of the last run.", std::to_string(last.asked()));
  tell("last_answered", "gauge", "Of these, answered.", std::to_string(last.answered()));
  tell("last_distinct", "gauge", "Different answers, summed over the questions.",
       std::to_string(distinct_in(last)));
  tell("last_identical_share", "gauge", "Share of answers equal to the most frequent one.",
       ecmascript_number(identical_in(last).share));
  tell("last_run_timestamp_seconds", "gauge", "When the last run was made.",
       std::to_string(last.time_us / 1'000'000));
  tell("baseline_timestamp_seconds", "gauge", "When its baseline was made.",
       std::to_string(last.baseline_us / 1'000'000));
  return text;
}

}  // namespace verbatim::replay
