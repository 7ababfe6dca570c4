// verbatim replay: compute recorded answers again, and say how far they agree.

#include "audit/reader.hpp"
#include "audit/signer.hpp"
#include "cli/command.hpp"
#include "cli/model_places.hpp"
#include "kernels/backend.hpp"
#include "replay/replayer.hpp"
#include "replay/selection.hpp"
#include "replay/statement.hpp"

#include <unistd.h>

#include <array>
#include <iostream>
#include <map>
#include <memory>

namespace verbatim::cli {

namespace {

using replay::Verdict;
using replay::VerdictKind;

struct ReplayFlags {
  replay::Selection selection;
  bool all = false;
  std::vector<std::string> engines;
  EngineFlags engine;
  std::string method = "score";
};

constexpr std::array kKinds = {VerdictKind::bitwise,        VerdictKind::token_exact,
                               VerdictKind::within_margin,  VerdictKind::diverged,
                               VerdictKind::not_replayable, VerdictKind::erased};

/// Where models may be: what --engine says; else what the gateway last served from this folder, and the demo model.
Result<std::vector<replay::ModelPlace>> places_of(const Context& context,
                                                  const ReplayFlags& flags) {
  std::vector<replay::ModelPlace> places;
  for (const std::string& text : flags.engines) {
    const auto pair = split_assignment(text);
    if (!pair) return pair.error();
    std::error_code ignored;
    if (!std::filesystem::exists(pair->second, ignored)) {
      return Error{Errc::not_found, "no model there", pair->second,
                   "check --engine " + pair->first + "=PATH"};
    }
    places.push_back({pair->first, pair->second});
  }
  if (!places.empty()) return places;  // who names models means these, and no others
  for (replay::ModelPlace& place : read_model_places(context.data))
    places.push_back(std::move(place));
  if (const auto demo = demo_model_path()) places.push_back({"demo", *demo});
  return places;
}

/// The verdict's leaf, with the signed statement as its content.
Result<void> append_verdict(audit::Appender& appender, audit::LogReader& reader,
                            const audit::NoteSigningKey& key, const Verdict& verdict) {
  auto statement = replay::signed_statement(reader, verdict, key);
  if (!statement) return statement.error();
  audit::LeafDraft draft;
  draft.type = "replay_verdict";
  draft.fields = replay::verdict_fields(verdict);
  draft.contents.push_back({"statement", std::move(*statement)});
  const auto appended = appender.append_and_wait(std::move(draft));
  if (!appended) return appended.error();
  return {};
}

void print_verdict(const Verdict& verdict) {
  std::cout << replay::verdict_name(verdict.kind)
            << std::string(16 - replay::verdict_name(verdict.kind).size(), ' ')
            << verdict.record.str() << "  " << verdict.model;
  if (verdict.origin) std::cout << "  (cache hit of " << verdict.origin->str() << ")";
  if (!verdict.reason.empty()) std::cout << "  " << verdict.reason;
  if (verdict.position) std::cout << " at token " << *verdict.position;
  if (verdict.character) std::cout << " (byte " << *verdict.character << ")";
  if (!verdict.detail.empty()) std::cout << ": " << verdict.detail;
  std::cout << '\n';
}

OrderedJson summary_json(const std::map<VerdictKind, std::uint64_t>& counts) {
  OrderedJson json;
  for (const VerdictKind kind : kKinds) {
    const auto found = counts.find(kind);
    json[std::string(replay::verdict_name(kind))] = found == counts.end() ? 0 : found->second;
  }
  return json;
}

int report(const Context& context, const std::vector<Verdict>& verdicts) {
  std::map<VerdictKind, std::uint64_t> counts;
  OrderedJson records = OrderedJson::array();
  for (const Verdict& verdict : verdicts) {
    ++counts[verdict.kind];
    records.push_back(replay::verdict_json(verdict));
  }
  if (context.json) {
    print_json({{"summary", summary_json(counts)}, {"records", std::move(records)}});
  } else {
    for (const Verdict& verdict : verdicts) print_verdict(verdict);
    std::cout << verdicts.size() << " records";
    for (const auto& [kind, count] : counts)
      std::cout << ' ' << count << ' ' << replay::verdict_name(kind);
    std::cout << '\n';
  }
  return counts.contains(VerdictKind::diverged) ? kBadFinding : kDone;
}

/// An engine that cannot be had here is a mistake in the command, not a verdict on anybody's record.
Result<void> check_engine(const EngineFlags& flags) {
  if (flags.backend != "auto") {
    const auto backend = kernels::parse_backend(flags.backend);
    if (!backend) return backend.error();
    if (!kernels::supported(*backend)) {
      return Error{Errc::unsupported, "this machine cannot run the backend " + flags.backend,
                   "--backend", "use auto"};
    }
  }
  return {};
}

int run_replay(const Context& context, const ReplayFlags& flags) {
  const replay::Selection& selection = flags.selection;
  if (!flags.all && selection.ids.empty() && selection.since.empty() && selection.until.empty() &&
      selection.model.empty() && selection.sample == 0) {
    return usage("nothing is selected", "give --all, --id, --since, --model or --sample");
  }
  if (flags.method != "score" && flags.method != "decode") {
    return usage("unknown method '" + flags.method + "'", "use score or decode");
  }
  const auto usable = check_engine(flags.engine);
  if (!usable) return fail(usable.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto ids = replay::select(**reader, selection);
  if (!ids) return fail(ids.error());
  auto places = places_of(context, flags);
  if (!places) return fail(places.error());
  local_engine::EngineOptions options;
  options.backend = flags.engine.backend;
  options.threads = flags.engine.threads;
  options.profile = flags.engine.profile;
  replay::Engines engines(std::move(*places), options);

  const auto key = audit::load_log_key(context.data);
  if (!key) return fail(key.error());
  static const SystemClock clock;
  auto appender = audit::open_appender(context.data, clock);
  if (!appender) return fail(appender.error());
  const replay::Method method =
      flags.method == "score" ? replay::Method::score : replay::Method::decode;
  const bool progress = !context.quiet && ::isatty(STDERR_FILENO) == 1;
  std::vector<Verdict> verdicts;
  for (const Uuid& id : *ids) {
    auto verdict = replay::replay_record(**reader, engines, id, method, clock);
    if (!verdict) return fail(verdict.error());
    const auto appended = append_verdict(**appender, **reader, *key, *verdict);
    if (!appended) return fail(appended.error());
    verdicts.push_back(std::move(*verdict));
    if (progress)
      std::cerr << "\rreplayed " << verdicts.size() << " of " << ids->size() << std::flush;
  }
  if (progress) std::cerr << "\r\x1b[K";
  return report(context, verdicts);
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command =
      app.add_subcommand("replay", "compute recorded answers again on the local engine");
  command->add_option("--id", flags->selection.ids, "record ids");
  command->add_option("--since", flags->selection.since, "RFC 3339 time or date");
  command->add_option("--until", flags->selection.until, "RFC 3339 time or date");
  command->add_option("--model", flags->selection.model, "records that asked for this model");
  command
      ->add_option("--sample", flags->selection.sample,
                   "so many of the selected, drawn by a hash of checkpoint and id")
      ->check(whole_number());
  command->add_flag("--all", flags->all, "every exchange");
  command->add_option("--engine", flags->engines,
                      "NAME=PATH of a model; what counts is the digest of its weights");
  command->add_option("--method", flags->method, "score (one prefill) or decode (token by token)")
      ->capture_default_str();
  command->add_option("--backend", flags->engine.backend, "scalar, avx2, avx512 or auto")
      ->capture_default_str();
  command->add_option("--threads", flags->engine.threads, "0: all cores")
      ->check(whole_number(0, kThreadsMax));
  command->add_option("--report", "HTML report (not in this version)")->group("");
  add_common(*command, context, "verbatim replay --all --json");
  command->callback([&context, flags, command] {
    if (command->count("--report") != 0) {
      context.exit_code = not_in_this_version("replay --report");
      return;
    }
    context.exit_code = run_replay(context, *flags);
  });
}

}  // namespace verbatim::cli
