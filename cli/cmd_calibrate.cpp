// verbatim replay calibrate: how far honest answers of another engine are from ours.

#include "audit/reader.hpp"
#include "cli/append_leaf.hpp"
#include "cli/number_option.hpp"
#include "cli/progress.hpp"
#include "cli/replay_flags.hpp"
#include "cli/show_text.hpp"
#include "replay/calibration.hpp"
#include "replay/verdict.hpp"

#include <iostream>
#include <map>
#include <memory>

namespace verbatim::cli {

namespace {

struct CalibrateFlags {
  RecordFlags records;
  std::string engine, out;
  std::vector<std::string> alternatives;
  EngineFlags options;
  double rate = 0.01;
};

/// What one engine thinks of the selected answers, and why it could not say of the others.
struct Scored {
  std::vector<replay::ForeignScore> scores;
  std::map<std::string, std::size_t> skipped;
};

/// Why an exchange says nothing of the endpoint: "" if it does.
std::string why_not_used(const replay::RecordedLeaves& leaves, const std::string& model) {
  if (replay::text_at(leaves.request.json, {"model", "requested"}) != model) return "other_model";
  if (replay::text_at(leaves.request.json, {"route", "upstream"}) == "local") return "local";
  if (!leaves.response) return "open";
  const std::string status = replay::text_at(leaves.response->json, {"status"});
  if (status != "complete") return status;
  return replay::what_was_not_captured(leaves, leaves).empty() ? "" : "not_captured";
}

/// "120 other_model, 3 local".
std::string in_words(const std::map<std::string, std::size_t>& counts) {
  std::string words;
  for (const auto& [reason, count] : counts)
    words += (words.empty() ? "" : ", ") + std::to_string(count) + " " + reason;
  return words;
}

/// What is said of a calibration that honest answers hardly gave; "" if nothing.
std::string warning_of(const replay::Calibration& calibration) {
  if (!calibration.is_beyond_rounding()) return "";
  return "these answers are further from the engine's choices than rounding takes them (" +
         replay::decimal(calibration.threshold) + " logit units, " +
         ecmascript_number(calibration.share_max) +
         " of an answer's tokens): are they honest answers of these weights, under these "
         "parameters?";
}

/// Remote answers to `model` in the selection, scored. Logits are dropped at once: memory is bounded by the deficits.
Result<Scored> score_all(audit::LogReader& reader, const std::vector<Uuid>& ids,
                         const std::string& model, local_engine::Engine& engine,
                         Progress& progress) {
  Scored scored;
  std::size_t done = 0;
  for (const Uuid& id : ids) {
    progress.show(++done, ids.size());
    const auto leaves = replay::read_leaves(reader, id);
    if (!leaves) return leaves.error();
    if (const std::string why = why_not_used(*leaves, model); !why.empty()) {
      ++scored.skipped[why];
      continue;
    }
    auto answer =
        replay::score_foreign(reader, *leaves, replay::time_at(leaves->request.json), engine);
    if (!answer) {
      if (answer.error().code == Errc::storage_failed) return answer.error();
      ++scored.skipped[answer.error().code == Errc::erased ? "erased" : "malformed_record"];
      continue;
    }
    if (!answer->cannot.reason.empty()) ++scored.skipped[answer->cannot.reason];
    // Of several choices one: they are not independent, and the rate is one of records.
    if (!answer->choices.empty()) {
      answer->choices.front().result = {};
      scored.scores.push_back(std::move(answer->choices.front()));
    }
  }
  return scored;
}

Result<std::vector<replay::Detection>> detect_all(
    audit::LogReader& reader, const std::vector<Uuid>& ids, const CalibrateFlags& flags,
    const std::string& model, const replay::Calibration& calibration, Progress& progress) {
  auto places = named_places(flags.alternatives, "--alternative");
  if (!places) return places.error();
  auto options = engine_options(flags.options);
  if (!options) return options.error();
  std::vector<replay::Detection> detections;
  for (const replay::ModelPlace& place : *places) {
    replay::Engines engines({place}, *options);
    const auto engine = engines.vouched(place.name);
    if (!engine) return engine.error();
    const auto scored = score_all(reader, ids, model, **engine, progress);
    if (!scored) return scored.error();
    detections.push_back(replay::detect(calibration, place.name, scored->scores));
  }
  return detections;
}

OrderedJson proportion(const replay::Proportion& value) {
  return {{"count", value.count},
          {"of", value.of},
          {"share", value.share},
          {"low", value.low},
          {"high", value.high}};
}

OrderedJson detection_json(const replay::Detection& detection) {
  return {{"name", detection.name},
          {"records", detection.records},
          {"tokens", detection.tokens},
          {"tokens_beyond", proportion(detection.beyond)},
          {"records_beyond", proportion(detection.records_beyond)},
          {"tokens_needed",
           detection.tokens_needed == 0 ? OrderedJson() : OrderedJson(detection.tokens_needed)}};
}

void print_calibration(const replay::Calibration& calibration, const Scored& honest,
                       const std::vector<replay::Detection>& detections) {
  std::cout << calibration.records << " honest answers, " << calibration.tokens << " tokens, "
            << calibration.differing << " of them not the engine's choice\n"
            << "threshold " << replay::decimal(calibration.threshold) << " logit units, at most "
            << calibration.share_max << " of an answer's tokens; false positives at most "
            << calibration.alpha << '\n';
  for (const auto& [reason, count] : honest.skipped)
    std::cout << "not used: " << count << " (" << one_line(reason) << ")\n";
  for (const replay::Detection& detection : detections) {
    std::cout << one_line(detection.name) << ": " << detection.records_beyond.count << " of "
              << detection.records_beyond.of << " answers told apart; ";
    if (detection.tokens_needed == 0) {
      std::cout << "no token's deficit was beyond the threshold\n";
    } else {
      std::cout << detection.tokens_needed << " tokens needed for 95 %\n";
    }
  }
}

/// The calibration is in the log before a verdict may name it.
Result<void> record(const Context& context, const replay::Calibration& calibration) {
  const std::string text = replay::calibration_text(calibration);
  audit::LeafDraft draft;
  draft.type = "calibration";
  draft.fields = Json::parse(text);
  for (const char* own : {"v", "type"}) draft.fields.erase(own);
  draft.fields["sha256"] = sha256(text).hex();
  const auto appended = append_leaf(context, std::move(draft));
  if (!appended) return appended.error();
  return {};
}

int run_calibrate(const Context& context, CalibrateFlags& flags) {
  if (const auto finished = flags.records.finish(); !finished) return fail(finished.error());
  if (const auto possible = check_outputs({flags.out}); !possible) return fail(possible.error());
  const auto places = named_places({flags.engine}, "--engine");
  if (!places) return fail(places.error());
  const std::string model = places->front().name;
  const auto options = engine_options(flags.options);
  if (!options) return fail(options.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto selected = replay::select(**reader, flags.records.selection);
  if (!selected) return fail(selected.error());
  replay::Engines engines(*places, *options);
  const auto engine = engines.vouched(model);
  if (!engine) return fail(engine.error());

  static const SystemClock clock;
  Progress progress(context.quiet, "scored", clock);
  const auto honest = score_all(**reader, selected->ids, model, **engine, progress);
  if (!honest) return fail(honest.error());
  auto calibration = replay::calibrate(honest->scores, flags.rate);
  if (!calibration) {
    Error error = calibration.error();
    if (!honest->skipped.empty())
      error.what += " (answers to " + model + "; not used: " + in_words(honest->skipped) + ")";
    return fail(error);
  }
  calibration->model = model;
  calibration->profile = (*engine)->profile();
  calibration->weights_sha256 = (*engine)->fingerprint().weights_sha256.hex();
  const auto detections = detect_all(**reader, selected->ids, flags, model, *calibration, progress);
  if (!detections) return fail(detections.error());
  progress.clear();

  if (const auto recorded = record(context, *calibration); !recorded) return fail(recorded.error());
  const std::string text = replay::calibration_text(*calibration);
  if (!flags.out.empty()) {
    if (const auto written = write_output(flags.out, text); !written) return fail(written.error());
  }
  const std::string warning = warning_of(*calibration);
  if (!warning.empty()) warn(warning);
  if (context.json) {
    OrderedJson found = OrderedJson::array();
    for (const auto& detection : *detections) found.push_back(detection_json(detection));
    print_json({{"calibration", OrderedJson::parse(text)},
                {"sha256", sha256(text).hex()},
                {"not_used", honest->skipped},
                {"warning", warning.empty() ? OrderedJson() : OrderedJson(warning)},
                {"alternatives", std::move(found)}});
  } else {
    print_calibration(*calibration, *honest, *detections);
  }
  return warning.empty() ? kDone : kBadFinding;
}

}  // namespace

void add_calibrate(CLI::App& replay, Context& context) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = replay.add_subcommand(
      "calibrate", "from honest answers of a remote engine: how far rounding alone goes");
  flags->records.add(*command);
  command
      ->add_option("--engine", flags->engine, "NAME=PATH: the weights that NAME is known to serve")
      ->required();
  command->add_option("--alternative", flags->alternatives,
                      "NAME=PATH of other weights: how soon would they be told apart?");
  command->add_option("--rate", flags->rate, "of honest answers that may be called diverged")
      ->check(number(0.0001, 0.5))
      ->capture_default_str();
  command->add_option("--out", flags->out, "write the calibration here, for replay --calibration");
  command->add_option("--backend", flags->options.backend, "scalar, avx2, avx512, auto or cuda")
      ->capture_default_str();
  command->add_option("--threads", flags->options.threads, "0: all cores")
      ->check(whole_number(0, kThreadsMax));
  add_common(*command, context,
             "verbatim replay calibrate --model llama --engine llama=./model --until 2026-11-01 "
             "--out c.json");
  command->callback([&context, flags] { context.exit_code = run_calibrate(context, *flags); });
}

}  // namespace verbatim::cli
