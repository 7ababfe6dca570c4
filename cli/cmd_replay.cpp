// verbatim replay: compute recorded answers again, and say how far they agree.

#include "cli/command.hpp"
#include "cli/model_places.hpp"
#include "cli/policy_file.hpp"
#include "cli/progress.hpp"
#include "cli/replay_evidence.hpp"
#include "cli/replay_flags.hpp"
#include "cli/show_text.hpp"
#include "gateway/environment.hpp"
#include "replay/earlier.hpp"
#include "replay/html.hpp"
#include "replay/replay_metrics.hpp"
#include "replay/replay_report.hpp"
#include "replay/replayer.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <deque>
#include <future>
#include <iostream>
#include <map>
#include <memory>

namespace verbatim::cli {

namespace {

using replay::Verdict;
using replay::VerdictKind;

struct ReplayFlags {
  RecordFlags records;
  std::vector<std::string> engines;
  EngineFlags engine;
  std::string method = "score", calibration, report, csv;
  std::string bundle, key, policy, statements;
  bool resume = false, no_texts = false;
  std::size_t texts = 40;
  std::string metrics;
  std::uint64_t time_budget_s = 0;  ///< 0: none
  std::size_t parallel = 8;
  bool explain = false;
  std::string against, against_backend;
  std::uint64_t kv_bytes_max = local_engine::EngineOptions{}.kv_bytes_max;
};

/// Where models may be: what --engine says; and under other names what the gateway last served from this folder, and the
/// demo model.
Result<std::vector<replay::ModelPlace>> places_of(const Context& context,
                                                  const ReplayFlags& flags) {
  auto places = named_places(flags.engines, "--engine");
  if (!places) return places;
  const auto add = [&](replay::ModelPlace place) {
    const bool named = std::any_of(places->begin(), places->end(),
                                   [&](const auto& each) { return each.name == place.name; });
    if (!named) places->push_back(std::move(place));
  };
  if (flags.bundle.empty()) {
    for (replay::ModelPlace& place : read_model_places(context.data)) add(std::move(place));
  }
  if (const auto demo = demo_model_path()) add({"demo", *demo});
  return places;
}

/// A bundle stays as it is, and holds the verdicts of somebody else.
Result<void> check_bundle_flags(const ReplayFlags& flags) {
  const auto invalid = [](const char* what, const std::string& where, const char* advice) {
    return Error{Errc::invalid_input, what, where, advice};
  };
  if (flags.bundle.empty()) {
    if (flags.key.empty() && flags.policy.empty() && flags.statements.empty()) return {};
    return invalid("--key, --policy and --statements are for a bundle", "", "give --bundle PATH");
  }
  if (flags.resume) {
    return invalid("the verdicts in a bundle are its maker's", "--resume", "leave it out");
  }
  for (const std::string& file : {flags.report, flags.csv, flags.metrics, flags.statements}) {
    if (!file.empty() && lies_in(file, flags.bundle)) {
      return invalid("a file in the bundle would make it invalid", file, "choose another place");
    }
  }
  return {};
}

/// `drawn_by`: the checkpoint of --checkpoint, "" for none. The bundle must go on from it.
Result<std::unique_ptr<ReplayEvidence>> evidence_of(const Context& context,
                                                    const ReplayFlags& flags,
                                                    const std::string& drawn_by,
                                                    const Clock& clock) {
  if (flags.bundle.empty()) return log_evidence(context.data, clock);
  audit::VerifyOptions options;
  const auto key = read_key(flags.key);
  if (!key) return key.error();
  options.vkey = *key;
  options.checkpoint = drawn_by;
  if (!flags.policy.empty()) {
    const auto policy = read_policy(flags.policy);
    if (!policy) return policy.error();
    options.policy = *policy;
  }
  return bundle_evidence(flags.bundle, options, flags.statements);
}

Result<std::optional<replay::Calibration>> calibration_of(const ReplayFlags& flags) {
  if (flags.calibration.empty()) return std::optional<replay::Calibration>();
  const auto text = read_input(flags.calibration);
  if (!text) return text.error();
  auto calibration = replay::parse_calibration(*text);
  if (!calibration) return calibration.error();
  return std::optional(std::move(*calibration));
}

/// One run, from the selection to the last leaf.
class Run {
 public:
  Run(const Context& context, const ReplayFlags& flags) : context_(context), flags_(flags) {}

  /// Everything that can be wrong before the first record.
  Result<void> open(RecordFlags& records) {
    if (auto finished = records.finish(); !finished) return finished;
    if (auto fit = check_bundle_flags(flags_); !fit) return fit;
    if (auto possible = check_outputs({flags_.report, flags_.csv, flags_.metrics}); !possible)
      return possible;
    if (auto goes_on = metrics_so_far(); !goes_on) return goes_on.error();
    auto evidence = evidence_of(context_, flags_, records.selection.checkpoint, clock_);
    if (!evidence) return evidence.error();
    evidence_ = std::move(*evidence);
    records.selection.in_draw_order = flags_.time_budget_s != 0;
    auto selected = replay::select(evidence_->records(), records.selection);
    if (!selected) return selected.error();
    about_.selected = std::move(*selected);
    about_.design = replay::design_text(records.selection, about_.selected);
    auto places = places_of(context_, flags_);
    if (!places) return places.error();
    auto options = engine_options(flags_.engine);
    if (!options) return options.error();
    options->kv_bytes_max = flags_.kv_bytes_max;
    engines_ = std::make_unique<replay::Engines>(std::move(*places), *options);
    if (auto named = open_counterpart(); !named) return named;
    auto calibration = calibration_of(flags_);
    if (!calibration) return calibration.error();
    calibration_ = std::move(*calibration);
    return open_earlier();
  }

  Result<void> replay_all() {
    Progress progress(context_.quiet, "replayed", clock_);
    const replay::ReplayWith with{
        *engines_,
        environments_,
        models_,
        calibration_ ? &*calibration_ : nullptr,
        flags_.method == "score" ? replay::Method::score : replay::Method::decode,
        clock_,
        flags_.explain,
        against_ ? &*against_ : nullptr};
    const std::vector<Uuid>& ids = about_.selected.ids;
    if (auto checked = replay::check_engines_of(evidence_->records(), ids, *engines_); !checked)
      return checked;
    const std::int64_t start_us = clock_.steady_us();
    // Several records at a time fill the engine's batches; verdicts are given in the order of the selection.
    std::deque<std::future<Result<Verdict>>> under_way;
    for (std::size_t begun = 0;;) {
      while (under_way.size() < flags_.parallel && begun < ids.size() &&
             (begun == 0 || !budget_is_spent(start_us))) {
        under_way.push_back(std::async(
            std::launch::async, [this, &with, id = ids[begun++]] { return replay_one(id, with); }));
      }
      if (under_way.empty()) break;
      auto verdict = under_way.front().get();
      under_way.pop_front();
      if (!verdict) return verdict.error();
      if (auto given = give(*verdict); !given) return given;
      about_.verdicts.push_back(std::move(*verdict));
      // Twice as many as are shown, so that sorting is rare.
      if (about_.verdicts.size() % (2 * flags_.texts + 1) == 0) drop_traces();
      progress.show(about_.verdicts.size(), ids.size());
    }
    drop_traces();
    if (flags_.time_budget_s != 0) end_early(about_.verdicts.size());
    return {};
  }

  [[nodiscard]] bool engine_failed() const { return engines_ && engines_->failed(); }

  /// Writes what --report and --csv ask for. Texts in a report are read by whoever has it: a log takes note of each.
  Result<void> write_files() {
    describe();
    if (!flags_.report.empty()) {
      for (const Verdict& verdict : about_.verdicts) {
        if (verdict.trace.empty() || !about_.with_texts) continue;
        if (auto noted = evidence_->text_is_shown(verdict.record); !noted) return noted;
      }
      if (auto done = write_output(flags_.report, replay::replay_report(about_), 0600); !done)
        return done;
    }
    if (!flags_.csv.empty()) {
      if (auto done = write_output(flags_.csv, replay::replay_csv(about_), 0600); !done)
        return done;
    }
    return write_metrics();
  }

  [[nodiscard]] const replay::ReplayRun& about() const { return about_; }
  /// Earlier verdicts that --resume did not take over, since nobody proves them.
  [[nodiscard]] std::size_t passed_over() const { return earlier_.passed_over; }
  /// Null for a log.
  [[nodiscard]] const audit::VerifyReport* verified() const { return evidence_->verified(); }

 private:
  /// What --against and --against-backend name.
  Result<void> open_counterpart() {
    if (flags_.against.empty() && flags_.against_backend.empty()) return {};
    std::error_code ignored;
    if (!flags_.against.empty() && !std::filesystem::exists(flags_.against, ignored))
      return Error{Errc::not_found, "no model there", flags_.against, "check --against PATH"};
    EngineFlags other = flags_.engine;
    if (!flags_.against_backend.empty()) other.backend = flags_.against_backend;
    if (const auto usable = engine_options(other); !usable) return usable.error();
    against_ = replay::Counterpart{flags_.against, flags_.against_backend};
    return {};
  }

  Result<void> open_earlier() {
    if (!flags_.resume) return {};
    replay::RunIdentity run{flags_.method, flags_.engine.profile, local_engine::build_id(), ""};
    if (calibration_) {
      run.calibration_sha256 = sha256(replay::calibration_text(*calibration_)).hex();
    }
    auto earlier = replay::earlier_verdicts(evidence_->records(), run, about_.selected.ids);
    if (!earlier) return earlier.error();
    earlier_ = std::move(*earlier);
    if (earlier_.passed_over != 0) {
      std::cerr << "verbatim: earlier verdicts passed over: " << earlier_.passed_over
                << " (no statement by the log's key says what they say; their records are judged "
                   "again)\n";
    }
    return {};
  }

  /// Runs on any thread.
  Result<Verdict> replay_one(const Uuid& id, const replay::ReplayWith& with) {
    // What was said last is that there was nothing to compare: that may have changed.
    const bool open = earlier_.without_answer.contains(id);
    const auto found = earlier_.verdicts.find(id);
    if (!open && found != earlier_.verdicts.end()) {
      auto taken = replay::taken_over(evidence_->records(), found->second, with);
      if (taken) return std::move(*taken);
    }
    return replay::replay_record(evidence_->records(), id, with);
  }

  Result<void> give(Verdict& verdict) {
    if (verdict.resumed) return {};
    if (replay::is_said_already(earlier_, verdict)) {
      verdict.resumed = true;
      verdict.leaf = earlier_.without_answer.at(verdict.record).leaf;
      return {};
    }
    // Of a pruned record there is nothing left that a statement could be about; the log says that it went.
    const bool is_gone = verdict.kind == VerdictKind::pruned && !verdict.response_index;
    if (is_gone) return {};
    const auto leaf = evidence_->give(verdict);
    if (!leaf) return leaf.error();
    verdict.leaf = *leaf;
    return {};
  }

  [[nodiscard]] bool budget_is_spent(std::int64_t start_us) const {
    return flags_.time_budget_s != 0 &&
           clock_.steady_us() - start_us >=
               static_cast<std::int64_t>(flags_.time_budget_s) * 1'000'000;
  }

  /// The first `examined` of the draw are the sample; from here on in the order of time.
  void end_early(std::size_t examined) {
    const bool all = examined == about_.selected.ids.size();
    about_.selected.ids.resize(examined);
    std::sort(about_.selected.ids.begin(), about_.selected.ids.end());
    std::sort(about_.verdicts.begin(), about_.verdicts.end(),
              [](const Verdict& a, const Verdict& b) { return a.record < b.record; });
    about_.design = replay::design_text(flags_.records.selection, about_.selected);
    if (!all) {
      about_.design +=
          " As many as could be begun within " + std::to_string(flags_.time_budget_s) + " s.";
    }
  }

  /// What the file of --metrics holds; "" if it is not there yet.
  Result<std::string> metrics_so_far() {
    if (flags_.metrics.empty()) return std::string();
    constexpr std::uint64_t kMetricsBytesMax = 1 << 20;
    auto before = read_file(flags_.metrics, kMetricsBytesMax);
    if (!before && before.error().code == Errc::not_found) return std::string();
    if (before && !replay::are_replay_metrics(*before)) {
      return Error{Errc::invalid_input, "this file holds something else than a replay's metrics",
                   flags_.metrics, "choose another place"};
    }
    return before;
  }

  /// Counters go on from the file of the last run; without one they begin at 0.
  Result<void> write_metrics() {
    if (flags_.metrics.empty()) return {};
    const auto before = metrics_so_far();
    if (!before) return before.error();
    return write_output(flags_.metrics, replay::replay_metrics(about_, *before, clock_.now_us()));
  }

  void drop_traces() {
    const bool wanted = !flags_.report.empty() && !flags_.no_texts;
    replay::keep_traces(about_.verdicts, wanted ? flags_.texts : 0);
  }

  void describe() {
    about_.origin = evidence_->records().origin();
    about_.vkey = evidence_->records().vkey();
    about_.made = format_rfc3339(clock_.now_us());
    about_.method = flags_.method;
    about_.engines_checked = engines_->checked();
    about_.environments = environments_.found();
    about_.here = environments_.here();
    about_.with_texts = !flags_.no_texts;
    if (const auto* bundle = evidence_->verified(); bundle != nullptr) {
      about_.bundle = "an exported bundle, " + std::string(audit::verdict_name(bundle->verdict)) +
                      (bundle->key_was_given ? " under the key that was given"
                                             : " under the key that it names itself");
    }
  }

  const Context& context_;
  const ReplayFlags& flags_;
  SystemClock clock_;
  std::unique_ptr<ReplayEvidence> evidence_;
  std::unique_ptr<replay::Engines> engines_;
  replay::RecordedModels models_;
  replay::Environments environments_{gateway::describe_environment()};
  std::optional<replay::Calibration> calibration_;
  std::optional<replay::Counterpart> against_;
  replay::Earlier earlier_;
  replay::ReplayRun about_;
};

/// What may have happened, unless the detail has said so.
void print_causes(const Verdict& verdict) {
  if (verdict.hypotheses.empty()) return;
  const std::string causes = replay::hypotheses_text(verdict.hypotheses);
  if (verdict.detail.find(causes) != std::string::npos) return;
  std::cout << "    may be: " << one_line(causes);
  if (verdict.deficit)
    std::cout << " (deficit at that token " << replay::decimal(*verdict.deficit) << " logit units)";
  std::cout << '\n';
}

void print_verdict(const Verdict& verdict) {
  std::cout << replay::verdict_name(verdict.kind)
            << std::string(16 - replay::verdict_name(verdict.kind).size(), ' ')
            << verdict.record.str() << "  " << one_line(verdict.model);
  if (verdict.origin) std::cout << "  (cache hit of " << verdict.origin->str() << ")";
  if (!verdict.reason.empty()) std::cout << "  " << one_line(verdict.reason);
  if (verdict.position) std::cout << " at token " << *verdict.position;
  if (verdict.character) std::cout << " (byte " << *verdict.character << ")";
  if (!verdict.detail.empty()) std::cout << ": " << one_line(verdict.detail);
  std::cout << '\n';
  print_causes(verdict);
  if (verdict.fingerprint)
    std::cout << "    " << one_line(replay::fingerprint_text(*verdict.fingerprint)) << '\n';
  for (const std::string& content : verdict.not_looked_at)
    std::cout << "    not looked at, since it is not disclosed: " << one_line(content) << '\n';
  if (verdict.other_weights_named)
    std::cout << "    computed by other weights than those that --engine names for "
              << one_line(verdict.model) << '\n';
  for (const Json& each : verdict.explanations)
    std::cout << "    " << one_line(replay::explanation_text(each)) << '\n';
}

/// How many there are of each verdict, and why those that gave none did not.
void print_counts(const std::vector<Verdict>& verdicts,
                  const std::map<VerdictKind, std::uint64_t>& counts) {
  std::cout << verdicts.size() << (verdicts.size() == 1 ? " record" : " records");
  const char* before = ": ";
  for (const auto& [kind, count] : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(verdicts.size());
    std::cout << before << count << ' ' << replay::verdict_name(kind) << " ("
              << replay::percent(share) << ')';
    before = ", ";
  }
  std::cout << '\n';
  const auto resumed =
      std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.resumed; });
  if (resumed != 0)
    std::cout << "  " << resumed << " taken over from an earlier run, not computed again\n";
  std::map<std::string, std::uint64_t> reasons;
  for (const Verdict& verdict : verdicts) {
    if (verdict.kind == VerdictKind::not_replayable) ++reasons[verdict.reason];
  }
  for (const auto& [reason, count] : reasons)
    std::cout << "  not replayable, " << one_line(reason) << ": " << count << '\n';
}

/// How much of it another kernel's rounding could have changed.
void print_margins(const std::vector<Verdict>& verdicts) {
  replay::MarginCounts margins;
  for (const Verdict& verdict : verdicts) margins.add(verdict.margins);
  if (margins.empty()) return;
  std::cout << margins.total() << " tokens compared, " << margins.below(replay::kVeryNear)
            << " of them nearly tied (the runner-up within " << replay::decimal(replay::kVeryNear)
            << " logit units)\n";
}

/// `quiet`: of the records only those that diverged.
void print_run(const replay::ReplayRun& run, const std::map<VerdictKind, std::uint64_t>& counts,
               bool quiet) {
  // A long list hides what it should show.
  constexpr std::size_t kAllShown = 200;
  for (const Verdict& verdict : run.verdicts) {
    const bool well =
        verdict.kind == VerdictKind::bitwise || verdict.kind == VerdictKind::token_exact;
    const bool shown =
        quiet ? verdict.kind == VerdictKind::diverged : run.verdicts.size() <= kAllShown || !well;
    if (shown) print_verdict(verdict);
  }
  print_counts(run.verdicts, counts);
  print_margins(run.verdicts);
  std::cout << one_line(run.design) << '\n';
  for (const auto& [index, environment] : run.environments) {
    std::cout << "recorded in the environment of leaf " << index;
    if (environment.differs.empty()) std::cout << ", which is the same here";
    std::cout << '\n';
    for (const std::string& fact : environment.differs) {
      const auto there = environment.facts.find(fact);
      const auto here = run.here.find(fact);
      std::cout << "  " << one_line(fact) << ": "
                << (there == environment.facts.end() ? "unknown" : one_line(there->second))
                << ", here " << (here == run.here.end() ? "unknown" : one_line(here->second))
                << '\n';
    }
  }
}

void print_bundle(const audit::VerifyReport& bundle) {
  std::cout << "from a bundle of " << one_line(bundle.origin) << ", "
            << audit::verdict_name(bundle.verdict) << ": " << bundle.size << " leaves, key "
            << one_line(bundle.vkey)
            << (bundle.key_was_given ? "" : " (named by the bundle itself: pass --key to pin it)")
            << "\n";
}

OrderedJson bundle_json(const audit::VerifyReport& bundle) {
  return {{"verdict", audit::verdict_name(bundle.verdict)},
          {"origin", bundle.origin},
          {"size", bundle.size},
          {"root", bundle.root.hex()},
          {"vkey", bundle.vkey},
          {"key_was_given", bundle.key_was_given},
          {"checked_contents", bundle.checked_contents}};
}

OrderedJson run_json(const replay::ReplayRun& run) {
  OrderedJson records = OrderedJson::array();
  for (const Verdict& verdict : run.verdicts) records.push_back(replay::verdict_json(verdict));
  OrderedJson figures = replay::replay_figures(run);
  OrderedJson summary = figures["verdicts"];
  OrderedJson environments = OrderedJson::array();
  for (const auto& [index, environment] : run.environments) {
    environments.push_back(
        {{"leaf", index}, {"recorded", environment.facts}, {"differs", environment.differs}});
  }
  return {{"summary", std::move(summary)},
          {"design", run.design},
          {"checkpoint", run.selected.checkpoint},
          {"engines_checked", run.engines_checked},
          {"here", run.here},
          {"environments", std::move(environments)},
          {"figures", std::move(figures)},
          {"records", std::move(records)}};
}

int run_replay(const Context& context, ReplayFlags& flags) {
  if (flags.method != "score" && flags.method != "decode") {
    return usage("unknown method '" + flags.method + "'", "use score or decode");
  }
  Run run(context, flags);
  if (const auto opened = run.open(flags.records); !opened) return fail(opened.error());
  if (const auto replayed = run.replay_all(); !replayed) {
    const int code = fail(replayed.error());
    return run.engine_failed() ? kUnfinished : code;
  }
  // What was found is said whether or not a file of it can be written.
  const auto written = run.write_files();
  if (!written) (void)fail(written.error());
  std::map<VerdictKind, std::uint64_t> counts;
  for (const Verdict& verdict : run.about().verdicts) ++counts[verdict.kind];
  if (context.json) {
    OrderedJson json = run_json(run.about());
    if (run.passed_over() != 0) json["passed_over"] = run.passed_over();
    if (run.verified() != nullptr) json["bundle"] = bundle_json(*run.verified());
    print_json(json);
  } else {
    if (run.verified() != nullptr) print_bundle(*run.verified());
    print_run(run.about(), counts, context.quiet);
    for (const std::string& file : {flags.report, flags.csv, flags.metrics}) {
      if (written && !file.empty()) std::cout << "wrote " << one_line(file) << '\n';
    }
  }
  if (counts.contains(VerdictKind::diverged)) return kBadFinding;
  return written ? kDone : kUnfinished;
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command =
      app.add_subcommand("replay", "compute recorded answers again on the local engine");
  flags->records.add(*command);
  command->add_option("--engine", flags->engines,
                      "NAME=PATH of a model; remote answers of that name are measured by it too");
  command->add_option("--bundle", flags->bundle,
                      "replay from an exported bundle (folder or zip), which is verified first");
  command->add_option("--key", flags->key,
                      "of a bundle: the log's public key (vkey), or a file that holds it");
  command->add_option("--policy", flags->policy,
                      "of a bundle: tlog-policy file, which witnesses must have cosigned");
  command->add_option("--statements", flags->statements,
                      "of a bundle: write a statement a record, unsigned, into this folder");
  command->add_option("--method", flags->method, "score (one prefill) or decode (token by token)")
      ->capture_default_str();
  command->add_option("--calibration", flags->calibration,
                      "what `replay calibrate` wrote: how far honest rounding goes");
  command->add_flag("--resume", flags->resume,
                    "take over verdicts that the same build gave before");
  command->add_option("--report", flags->report, "write a report: one HTML file");
  command->add_option("--texts", flags->texts, "so many texts in the report, the worst first")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_flag("--no-texts", flags->no_texts, "no recorded text in the report");
  command->add_option("--csv", flags->csv, "write one line a record");
  command->add_option("--metrics", flags->metrics,
                      "go on counting verdicts in this file, in Prometheus text format");
  command
      ->add_option("--time-budget", flags->time_budget_s,
                   "begin no record after so many seconds; they come in the order of the draw")
      ->check(whole_number(1, 1'000'000'000));
  command->add_option("--parallel", flags->parallel, "so many records at a time")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  command->add_flag("--explain", flags->explain,
                    "where a record keeps digests of its layers, name the first that differs");
  command->add_option("--against", flags->against,
                      "compare the layers with those of another model, at this path");
  command
      ->add_option("--against-backend", flags->against_backend,
                   "compare the layers with those that another backend computes")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512"}));
  command->add_option("--backend", flags->engine.backend, "scalar, avx2, avx512, auto or cuda")
      ->capture_default_str();
  command
      ->add_option(
          "--kv-bytes-max", flags->kv_bytes_max,
          "memory for keys and values, of each model; a record that takes more is not replayed")
      ->check(whole_number(1 << 16, std::uint64_t{1} << 42))
      ->capture_default_str();
  command->add_option("--threads", flags->engine.threads, "0: all cores")
      ->check(whole_number(0, kThreadsMax));
  add_common(*command, context, "verbatim replay --all --report report.html");
  add_calibrate(*command, context);
  command->callback([&context, flags, command] {
    if (!command->get_subcommands().empty()) return;
    context.exit_code = run_replay(context, *flags);
  });
}

}  // namespace verbatim::cli
