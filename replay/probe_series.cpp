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

/// "" if two runs ask the same.
std::string difference(const SeriesRun& run, const SeriesRun& baseline) {
  if (run.url != baseline.url) return "another endpoint, " + baseline.url;
  if (run.api != baseline.api) return "another API, " + baseline.api;
  if (run.model != baseline.model) return "another model, " + baseline.model;
  if (run.questions.size() != baseline.questions.size()) return "other questions";
  for (std::size_t i = 0; i < run.questions.size(); ++i) {
    if (run.questions[i].request != baseline.questions[i].request) return "other questions";
    const auto& now = run.questions[i].phases;
    const auto& then = baseline.questions[i].phases;
    const auto common = static_cast<std::ptrdiff_t>(std::min(now.size(), then.size()));
    if (!std::equal(now.begin(), now.begin() + common, then.begin(), same_load)) {
      return "the questions under another load";
    }
    if (now.size() != then.size()) {
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

/// For each question whether it was answered, as the test takes it.
std::vector<std::string> answered_of(const SeriesPhase& phase) {
  std::vector<std::string> answered(phase.answers.size(), "answered");
  answered.resize(std::max(phase.asked, answered.size()), "not");
  return answered;
}

SeriesTest test_of(const std::vector<SampleGroup>& groups, double alpha,
                   const TwoSampleOptions& options) {
  std::vector<CountsCompared> counts;
  for (const SampleGroup& group : groups) counts.push_back({group.before.size(), group.now.size()});
  return {two_sample_test(groups, options), alpha, options.permutations, options.seed,
          smallest_p_value(counts, options.permutations)};
}

/// What the baseline was not told.
std::vector<std::string> new_in(const std::map<std::string, std::size_t>& now,
                                const std::map<std::string, std::size_t>& before) {
  std::vector<std::string> news;
  for (const auto& [told, count] : now) {
    if (!before.contains(told)) news.push_back(told);
  }
  return news;
}

void add_counts(std::map<std::string, std::size_t>& to,
                const std::map<std::string, std::size_t>& counts) {
  for (const auto& [told, count] : counts) to[told] += count;
}

bool has_enough(const SeriesQuestion& question) {
  return std::all_of(question.phases.begin(), question.phases.end(), [](const SeriesPhase& phase) {
    return phase.answers.size() >= kSeriesAnswersMin;
  });
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

std::size_t SeriesRun::questions_open() const {
  return static_cast<std::size_t>(
      std::count_if(questions.begin(), questions.end(),
                    [](const SeriesQuestion& question) { return !has_enough(question); }));
}

SeriesRun series_run(const std::vector<ProbeResult>& probes, std::int64_t time_us) {
  SeriesRun run;
  run.time_us = time_us;
  for (const ProbeResult& probe : probes) {
    run.url = probe.url;
    run.api = probe.api;
    run.model = probe.model;
    run.questions.push_back(question_of(probe));
    add_counts(run.fingerprints, probe.fingerprints);
    add_counts(run.models, probe.models);
    add_counts(run.finish_reasons, probe.finish_reasons);
    for (const auto& [kind, failure] : probe.failures) run.failures[kind] += failure.count;
  }
  return run;
}

bool can_be_baseline(const SeriesRun& run) {
  return !run.questions.empty() && run.questions_open() == 0;
}

Result<void> check_asks_the_same(const SeriesRun& planned, const SeriesRun& baseline) {
  const std::string other = difference(planned, baseline);
  if (other.empty()) return {};
  return Error{Errc::invalid_input, "the series asked " + other, "",
               "use another folder, or begin anew with --new-baseline"};
}

void compare_with_baseline(SeriesRun& run, const SeriesRun& baseline, double alpha,
                           const TwoSampleOptions& options) {
  run.baseline_us = baseline.time_us;
  std::vector<SampleGroup> said, answered;
  for (std::size_t i = 0; i < std::min(run.questions.size(), baseline.questions.size()); ++i) {
    const SeriesQuestion &now = run.questions[i], &before = baseline.questions[i];
    for (std::size_t j = 0; j < std::min(now.phases.size(), before.phases.size()); ++j) {
      const SeriesPhase &then = before.phases[j], &here = now.phases[j];
      answered.push_back({answered_of(then), answered_of(here)});
      if (std::min(then.answers.size(), here.answers.size()) < kSeriesAnswersMin) continue;
      said.push_back({texts_of(before, then), texts_of(now, here)});
    }
  }
  if (!said.empty()) run.test = test_of(said, alpha, options);
  // Where nobody answers nothing was learnt: that is an outage, and no answer of the endpoint's.
  if (run.answered() > 0) run.answered_test = test_of(answered, alpha, options);
  run.new_fingerprints = new_in(run.fingerprints, baseline.fingerprints);
  // A baseline of an earlier version did not keep these.
  const std::vector<std::string> none;
  run.new_models = baseline.models.empty() ? none : new_in(run.models, baseline.models);
  run.new_finish_reasons =
      baseline.finish_reasons.empty() ? none : new_in(run.finish_reasons, baseline.finish_reasons);
}

const SeriesRun* newest_baseline(const std::vector<SeriesRun>& runs) {
  const auto found = std::find_if(runs.rbegin(), runs.rend(),
                                  [](const SeriesRun& run) { return run.is_baseline(); });
  return found == runs.rend() ? nullptr : &*found;
}

}  // namespace verbatim::replay
