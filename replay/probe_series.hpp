#pragma once
// Probes of one endpoint over time: each run is kept, and compared with a baseline. Format: schema/probe-series.md.

#include "audit/folder_lock.hpp"
#include "replay/probe.hpp"
#include "replay/two_sample.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::replay {

/// The answers to one question under one load.
struct SeriesPhase {
  std::size_t concurrency = 1, neighbours = 0, asked = 0;
  std::vector<std::size_t> answers;  ///< indices into SeriesQuestion::texts, in the order of asking
};

struct SeriesQuestion {
  std::string request;             ///< the body
  std::vector<std::string> texts;  ///< the different answers, the most frequent first
  std::vector<SeriesPhase> phases;
};

/// A comparison with the baseline.
struct SeriesTest {
  TwoSampleResult result;
  double alpha = 0;  ///< the false-positive rate at which it is changed
  std::size_t permutations = 0;
  std::uint64_t seed = 0;
  /// Of so many answers no smaller p can come: if this is above alpha, there is no alarm whatever was answered. 0 in runs
  /// that did not keep it.
  double smallest_p_value = 0;

  [[nodiscard]] bool can_alarm() const { return smallest_p_value <= alpha; }
  [[nodiscard]] bool alarms() const { return result.p_value <= alpha; }
};

struct SeriesRun {
  std::int64_t time_us = 0;
  std::int64_t baseline_us = 0;  ///< time_us itself: this run is a baseline
  std::string url, api, model;
  std::vector<SeriesQuestion> questions;
  /// Answers by what they told. Runs of earlier versions have neither models nor finish reasons.
  std::map<std::string, std::size_t> fingerprints, models, finish_reasons;
  std::map<std::string, std::size_t> failures;  ///< questions without an answer, by kind
  std::optional<SeriesTest> test;  ///< none for a baseline, or where too few answers came
  /// Of whether questions are answered at all. None for a baseline, where nobody answered, and in runs of earlier versions.
  std::optional<SeriesTest> answered_test;
  /// That the baseline was not told.
  std::vector<std::string> new_fingerprints, new_models, new_finish_reasons;

  [[nodiscard]] bool is_baseline() const { return baseline_us == time_us; }
  [[nodiscard]] std::size_t asked() const;
  [[nodiscard]] std::size_t answered() const;
  /// Questions that under some load have too few answers to compare.
  [[nodiscard]] std::size_t questions_open() const;
  /// The test says so at its rate.
  [[nodiscard]] bool answers_changed() const { return test && test->alarms(); }
  [[nodiscard]] bool answering_changed() const { return answered_test && answered_test->alarms(); }
  [[nodiscard]] bool changed() const {
    return answers_changed() || answering_changed() || !new_fingerprints.empty();
  }
  /// Neither a change nor the absence of one: too few answers to say.
  [[nodiscard]] bool undecided() const {
    return !is_baseline() && !changed() && !(test && test->can_alarm() && questions_open() == 0);
  }
};

/// What the probes of one run found, one probe a question.
[[nodiscard]] SeriesRun series_run(const std::vector<ProbeResult>& probes, std::int64_t time_us);

/// Fewer answers to a question under a load, then or now, are not compared.
inline constexpr std::size_t kSeriesAnswersMin = 5;
/// At most so many questions a phase: the test takes time in the square of them.
inline constexpr std::size_t kSeriesCountMax = 200;

/// True if a run has enough answers in each phase to compare others with.
[[nodiscard]] bool can_be_baseline(const SeriesRun& run);

/// `invalid_input` if a run that is planned would ask an endpoint for something else than the baseline did. To be asked
/// before it is made: questions cost money.
[[nodiscard]] Result<void> check_asks_the_same(const SeriesRun& planned, const SeriesRun& baseline);
/// Compares a run with a baseline of the same questions, and writes into it what came out. The run may have given up
/// before its last question.
void compare_with_baseline(SeriesRun& run, const SeriesRun& baseline, double alpha,
                           const TwoSampleOptions& options);

/// To be held from before the runs are read until theirs is added: two runs at once would both be the first. Makes the
/// folder. `unavailable` if another process holds it.
[[nodiscard]] Result<audit::FolderLock> lock_series(const std::filesystem::path& folder);
/// The runs in a folder, oldest first; none if there is no folder. `invalid_input` names a file that is no run.
[[nodiscard]] Result<std::vector<SeriesRun>> read_series(const std::filesystem::path& folder);
/// The newest baseline. Null if there is none.
[[nodiscard]] const SeriesRun* newest_baseline(const std::vector<SeriesRun>& runs);
/// `invalid_input` if the series has a run of that time, or a later one.
[[nodiscard]] Result<void> check_is_newest(const std::vector<SeriesRun>& runs,
                                           std::int64_t time_us);
/// Adds a file, which is there whole or not at all.
[[nodiscard]] Result<void> append_run(const std::filesystem::path& folder, const SeriesRun& run);

[[nodiscard]] std::string format_run(const SeriesRun& run);
[[nodiscard]] Result<SeriesRun> parse_run(std::string_view text);

/// What `verbatim probe --series --json` prints of a run, without its answers.
[[nodiscard]] OrderedJson series_json(const SeriesRun& run);
/// One line for people: "CHANGED since the baseline of ...".
[[nodiscard]] std::string series_sentence(const SeriesRun& run);
/// Prometheus text format 0.0.4, all of it from the series; `name` is the label `series`.
[[nodiscard]] std::string series_metrics(const std::vector<SeriesRun>& runs,
                                         const std::string& name);
/// One HTML file that loads nothing and holds no script.
[[nodiscard]] std::string series_report(const std::vector<SeriesRun>& runs,
                                        const std::string& made);

}  // namespace verbatim::replay
