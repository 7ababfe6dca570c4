// verbatim probe --series: the same questions again, compared with a baseline.

#include "replay/probe_series.hpp"

#include "cli/probe_flags.hpp"
#include "cli/progress.hpp"
#include "cli/show_text.hpp"
#include "replay/html.hpp"
#include "schema/bytes.hpp"

#include <algorithm>
#include <iostream>
#include <optional>

namespace verbatim::cli {

namespace {

constexpr std::size_t kPromptsMax = 1000;

/// The prompts of --prompts, one a line; else the one of --prompt, which is "" where a request is given.
Result<std::vector<std::string>> prompts_of(const ProbeFlags& flags) {
  if (flags.prompts_file.empty()) return std::vector<std::string>{flags.options.prompt};
  const auto text = read_input(flags.prompts_file);
  if (!text) return text.error();
  std::vector<std::string> prompts;
  for (std::size_t from = 0; from < text->size();) {
    const std::size_t end = std::min(text->find('\n', from), text->size());
    std::string line = text->substr(from, end - from);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) prompts.push_back(std::move(line));
    from = end + 1;
  }
  if (prompts.empty() || prompts.size() > kPromptsMax || !is_utf8(*text)) {
    return Error{Errc::invalid_input, "not 1 to 1000 prompts in UTF-8", flags.prompts_file,
                 "one on each line"};
  }
  return prompts;
}

Result<void> check_flags(const ProbeFlags& flags) {
  const auto invalid = [](std::string what, const char* advice) {
    return Error{Errc::invalid_input, std::move(what), "", advice};
  };
  const int questions = (flags.options.prompt.empty() ? 0 : 1) +
                        (flags.request_file.empty() ? 0 : 1) + (flags.prompts_file.empty() ? 0 : 1);
  if (questions != 1)
    return invalid("one kind of question is needed", "give --prompt, --prompts or --request");
  if (!flags.csv.empty()) return invalid("--csv is of one probe", "leave out --csv or --series");
  if (flags.options.count < replay::kSeriesAnswersMin ||
      flags.options.count > replay::kSeriesCountMax) {
    return invalid("a series takes 5 to 200 answers a phase", "change -n");
  }
  return {};
}

/// A baseline that could never raise an alarm is none. Asked before it is made, of as many answers as it may have.
Result<void> check_can_alarm(const ProbeFlags& flags, std::size_t questions,
                             std::size_t permutations) {
  const std::size_t phases =
      flags.options.concurrency.size() * (flags.options.neighbours > 0 ? 2 : 1);
  const auto smallest = [&](std::size_t count) {
    const std::vector<replay::CountsCompared> groups(questions * phases, {count, count});
    return replay::smallest_p_value(groups, permutations);
  };
  if (smallest(flags.options.count) <= flags.alpha) return {};
  std::size_t enough = flags.options.count;
  while (enough < replay::kSeriesCountMax && smallest(enough) > flags.alpha) ++enough;
  return Error{
      Errc::invalid_input,
      "so few answers can never raise an alarm at --alpha " + ecmascript_number(flags.alpha), "",
      "give -n " + std::to_string(enough) + " or more, or a greater --alpha"};
}

/// The run that these questions will be, with no answer yet.
Result<replay::SeriesRun> planned_run(replay::ProbeOptions options,
                                      const std::vector<std::string>& prompts,
                                      std::int64_t time_us) {
  std::vector<replay::ProbeResult> probes;
  for (const std::string& prompt : prompts) {
    options.prompt = prompt;
    auto probe = replay::planned_probe(options);
    if (!probe) return probe.error();
    probes.push_back(std::move(*probe));
  }
  return replay::series_run(probes, time_us);
}

/// One probe a question.
Result<std::vector<replay::ProbeResult>> ask_all(const Context& context,
                                                 replay::ProbeOptions options,
                                                 const std::vector<std::string>& prompts,
                                                 const Clock& clock) {
  Progress progress(context.quiet, "asked", clock);
  std::vector<replay::ProbeResult> probes;
  for (const std::string& prompt : prompts) {
    options.prompt = prompt;
    auto probe = replay::probe(options, clock, [&](std::size_t done, std::size_t of) {
      progress.show(probes.size() * of + done, prompts.size() * of);
    });
    if (!probe) return probe.error();
    probes.push_back(std::move(*probe));
    if (probes.size() == 1 && !probes.front().reached) break;  // nobody is there
  }
  progress.clear();
  return probes;
}

Result<void> write_files(const ProbeFlags& flags, const std::vector<replay::SeriesRun>& runs,
                         const Clock& clock) {
  if (!flags.metrics.empty()) {
    const std::string name = std::filesystem::absolute(flags.series).lexically_normal().filename();
    if (auto done = write_output(flags.metrics, replay::series_metrics(runs, name)); !done)
      return done;
  }
  if (flags.report.empty()) return {};
  return write_output(flags.report, replay::series_report(runs, format_rfc3339(clock.now_us())),
                      0600);
}

/// The most frequent answer of the run that the baseline does not have, beside the baseline's own.
void print_new_answer(const replay::SeriesRun& run, const replay::SeriesRun& baseline) {
  constexpr std::size_t kCharactersMax = 100;
  for (std::size_t i = 0; i < run.questions.size() && i < baseline.questions.size(); ++i) {
    const std::vector<std::string>& before = baseline.questions[i].texts;
    for (const std::string& text : run.questions[i].texts) {
      if (before.empty() || std::find(before.begin(), before.end(), text) != before.end()) continue;
      std::cout << "  question " << i + 1 << " of " << run.questions.size()
                << ", now: " << one_line(replay::shortened(text, kCharactersMax)) << "\n"
                << "  before:" << std::string(run.questions.size() < 10 ? 10 : 11, ' ')
                << one_line(replay::shortened(before.front(), kCharactersMax)) << '\n';
      return;
    }
  }
}

void print_run(const Context& context, const ProbeFlags& flags, const replay::SeriesRun& run,
               const replay::SeriesRun* baseline, const std::vector<replay::ProbeResult>& probes) {
  if (!context.json) {
    std::cout << one_line(replay::series_sentence(run)) << '\n';
    if (baseline != nullptr && run.answers_changed()) print_new_answer(run, *baseline);
    return;
  }
  OrderedJson json = replay::series_json(run);
  json["series"] = flags.series;
  json["probes"] = OrderedJson::array();
  for (const replay::ProbeResult& probe : probes)
    json["probes"].push_back(replay::probe_json(probe));
  print_json(json);
}

int exit_code_of(const replay::SeriesRun& run) {
  if (run.changed()) return kBadFinding;
  return run.undecided() ? kUnfinished : kDone;
}

}  // namespace

int run_probe_series(const Context& context, ProbeFlags& flags) {
  if (const auto checked = check_flags(flags); !checked) return fail(checked.error());
  const auto options = probe_options(flags);
  if (!options) return fail(options.error());
  const auto prompts = prompts_of(flags);
  if (!prompts) return fail(prompts.error());
  const auto lock = replay::lock_series(flags.series);
  if (!lock) return fail(lock.error());
  auto runs = replay::read_series(flags.series);
  if (!runs) return fail(runs.error());

  // All that can be refused is refused before the first question.
  static const SystemClock clock;
  const std::int64_t time_us = clock.now_us();
  if (const auto newest = replay::check_is_newest(*runs, time_us); !newest)
    return fail(newest.error());
  const auto planned = planned_run(*options, *prompts, time_us);
  if (!planned) return fail(planned.error());
  const replay::SeriesRun* const baseline =
      flags.new_baseline ? nullptr : replay::newest_baseline(*runs);
  replay::TwoSampleOptions test;
  test.seed = flags.options.seed;
  const auto possible = baseline == nullptr
                            ? check_can_alarm(flags, prompts->size(), test.permutations)
                            : replay::check_asks_the_same(*planned, *baseline);
  if (!possible) return fail(possible.error());
  const auto probes = ask_all(context, *options, *prompts, clock);
  if (!probes) return fail(probes.error());
  replay::SeriesRun run = replay::series_run(*probes, time_us);
  if (baseline != nullptr) {
    replay::compare_with_baseline(run, *baseline, flags.alpha, test);
  } else if (replay::can_be_baseline(run)) {
    run.baseline_us = run.time_us;
  } else {
    return fail(Error{Errc::upstream_failed,
                      "too few answers for a baseline: " + std::to_string(run.answered()) + " of " +
                          std::to_string(run.asked()),
                      run.url, "each question needs 5 answers under each load"});
  }
  if (const auto kept = replay::append_run(flags.series, run); !kept) return fail(kept.error());
  const auto compared =
      baseline == nullptr ? std::optional<replay::SeriesRun>() : std::optional(*baseline);
  runs->push_back(std::move(run));  // the baseline may move
  if (const auto written = write_files(flags, *runs, clock); !written) return fail(written.error());
  print_run(context, flags, runs->back(), compared ? &*compared : nullptr, *probes);
  return exit_code_of(runs->back());
}

}  // namespace verbatim::cli
