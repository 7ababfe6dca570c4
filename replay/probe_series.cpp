#include "replay/probe_series.hpp"

#include "schema/clock.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::replay {

namespace {

SeriesQuestion question_of(const ProbeResult& probe) {
  SeriesQuestion question;
  question.request = probe.request;
  std::vector<std::size_t> text_of(probe.answers.size());
  for (const Cluster& cluster : probe.clustering.clusters) {
    for (const std::size_t answer : cluster.answers) text_of[answer] = question.texts.size();
    question.texts.push_back(cluster.text);
  }
  for (const ProbePhase& phase : probe.phases) {
    SeriesPhase kept{phase.concurrency, phase.neighbours, phase.asked, {}};
    for (const std::size_t answer : phase.answers) kept.answers.push_back(text_of[answer]);
    question.phases.push_back(std::move(kept));
  }
  return question;
}

bool same_load(const SeriesPhase& a, const SeriesPhase& b) {
  return a.concurrency == b.concurrency && a.neighbours == b.neighbours;
}

bool nobody_answered(const std::vector<SeriesPhase>& phases) {
  return std::all_of(phases.begin(), phases.end(),
                     [](const SeriesPhase& phase) { return phase.answers.empty(); });
}

/// "" if two runs asked the same.
std::string difference(const SeriesRun& run, const SeriesRun& baseline) {
  if (run.url != baseline.url) return "another endpoint, " + baseline.url;
  if (run.api != baseline.api) return "another API, " + baseline.api;
  if (run.model != baseline.model) return "another model, " + baseline.model;
  const std::size_t asked = run.questions.size(), before = baseline.questions.size();
  // A run that nobody answered gave up after its first question.
  if (asked > before || (asked < before && run.answered() > 0)) return "other questions";
  for (std::size_t i = 0; i < run.questions.size(); ++i) {
    if (run.questions[i].request != baseline.questions[i].request) return "other questions";
    const auto& now = run.questions[i].phases;
    const auto& then = baseline.questions[i].phases;
    const auto common = static_cast<std::ptrdiff_t>(std::min(now.size(), then.size()));
    if (!std::equal(now.begin(), now.begin() + common, then.begin(), same_load)) {
      return "the questions under another load";
    }
    // A question that nobody answered was given up, perhaps before its last load.
    const bool given_up = now.size() < then.size() && nobody_answered(now);
    if (now.size() != then.size() && !given_up) {
      return "the questions under " + std::to_string(then.size()) + " loads, not " +
             std::to_string(now.size());
    }
  }
  return "";
}

std::vector<std::string> texts_of(const SeriesQuestion& question, const SeriesPhase& phase) {
  std::vector<std::string> texts;
  for (const std::size_t answer : phase.answers) texts.push_back(question.texts[answer]);
  return texts;
}

template <class Count>
std::size_t sum_over_phases(const SeriesRun& run, Count count) {
  std::size_t sum = 0;
  for (const SeriesQuestion& question : run.questions) {
    for (const SeriesPhase& phase : question.phases) sum += count(phase);
  }
  return sum;
}

}  // namespace

std::size_t SeriesRun::asked() const {
  return sum_over_phases(*this, [](const SeriesPhase& phase) { return phase.asked; });
}

std::size_t SeriesRun::answered() const {
  return sum_over_phases(*this, [](const SeriesPhase& phase) { return phase.answers.size(); });
}

bool SeriesRun::answers_changed() const { return test && test->result.p_value <= test->alpha; }

SeriesRun series_run(const std::vector<ProbeResult>& probes, std::int64_t time_us) {
  SeriesRun run;
  run.time_us = time_us;
  for (const ProbeResult& probe : probes) {
    run.url = probe.url;
    run.api = probe.api;
    run.model = probe.model;
    run.questions.push_back(question_of(probe));
    for (const auto& [fingerprint, count] : probe.fingerprints)
      run.fingerprints[fingerprint] += count;
    for (const auto& [kind, failure] : probe.failures) run.failures[kind] += failure.count;
  }
  return run;
}

bool can_be_baseline(const SeriesRun& run) {
  return !run.questions.empty() &&
         std::all_of(
             run.questions.begin(), run.questions.end(), [](const SeriesQuestion& question) {
               return std::all_of(
                   question.phases.begin(), question.phases.end(),
                   [](const auto& phase) { return phase.answers.size() >= kSeriesAnswersMin; });
             });
}

Result<void> compare_with_baseline(SeriesRun& run, const SeriesRun& baseline, double alpha,
                                   const TwoSampleOptions& options) {
  if (const std::string other = difference(run, baseline); !other.empty()) {
    return Error{Errc::invalid_input, "the series asked " + other, "",
                 "use another folder, or begin anew with --new-baseline"};
  }
  run.baseline_us = baseline.time_us;
  std::vector<SampleGroup> groups;
  std::vector<CountsCompared> counts;
  for (std::size_t i = 0; i < run.questions.size(); ++i) {
    const SeriesQuestion &now = run.questions[i], &before = baseline.questions[i];
    for (std::size_t j = 0; j < std::min(now.phases.size(), before.phases.size()); ++j) {
      SampleGroup group{texts_of(before, before.phases[j]), texts_of(now, now.phases[j])};
      if (std::min(group.before.size(), group.now.size()) < kSeriesAnswersMin) continue;
      counts.push_back({group.before.size(), group.now.size()});
      groups.push_back(std::move(group));
    }
  }
  if (!groups.empty()) {
    run.test = SeriesTest{two_sample_test(groups, options), alpha, options.permutations,
                          options.seed, smallest_p_value(counts, options.permutations)};
  }
  for (const auto& [fingerprint, count] : run.fingerprints) {
    if (!baseline.fingerprints.contains(fingerprint)) run.new_fingerprints.push_back(fingerprint);
  }
  return {};
}

const SeriesRun* newest_baseline(const std::vector<SeriesRun>& runs) {
  const auto found = std::find_if(runs.rbegin(), runs.rend(),
                                  [](const SeriesRun& run) { return run.is_baseline(); });
  return found == runs.rend() ? nullptr : &*found;
}

}  // namespace verbatim::replay
